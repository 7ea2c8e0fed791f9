package coord_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"nova.internal/libs/coord"
	"nova.internal/libs/oxiaembed"
)

// refusing is an address that refuses connections, and that no other process can take meanwhile.
func refusing(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// address is one that nobody listens at, yet.
func address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAnUnreachableInstanceIsOneErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	there := startOxia(t, 1).Addr()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	nobody := refusing(t)
	for name, tc := range map[string]struct {
		durable, ephemeral string
		says               []string
	}{
		"nobody is at the durable one":   {nobody, there, []string{"durable", nobody, "connection refused"}},
		"nobody is at the ephemeral one": {there, nobody, []string{"ephemeral", nobody, "connection refused"}},
		"what is there says nothing":     {mute.Addr().String(), there, []string{"durable", mute.Addr().String()}},
		"the address is none":            {"nowhere.invalid:1", there, []string{"durable", "nowhere.invalid:1"}},
		"the address cannot be one":      {"::::", there, []string{"durable", "::::"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(there)
			cfg.Durable, cfg.Ephemeral, cfg.DialTimeout = tc.durable, tc.ephemeral, 2*time.Second
			began := time.Now()
			_, err := coord.Dial(t.Context(), cfg)
			if err == nil {
				t.Fatal("connected")
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error does not say %q: %v", part, err)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %v", err)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestWhatWillNeverAnswerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer() // of another service
	served := make(chan struct{})
	go func() { defer close(served); _ = other.Serve(l) }()
	defer func() { other.Stop(); <-served }()

	wrongNamespace := config(startOxia(t, 1).Addr())
	wrongNamespace.DurableNamespace = "elsewhere"
	for name, cfg := range map[string]coord.Config{"another service": config(l.Addr().String()), "no such namespace": wrongNamespace} {
		began := time.Now()
		if _, err := coord.Dial(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), cfg.Durable) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := coord.Dial(within(t, 300*time.Millisecond), config(refusing(t)))
	want(t, err, context.DeadlineExceeded)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
}

// Services start in any order.
func TestAnInstanceThatStartsLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	at := address(t)
	dialled := make(chan error, 1)
	go func() {
		f, err := coord.Dial(t.Context(), config(at))
		if err == nil {
			_ = f.Close()
		}
		dialled <- err
	}()
	time.Sleep(500 * time.Millisecond)
	s, err := oxiaembed.Start(oxiaembed.Config{Dir: t.TempDir(), Listen: at, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	defer s.Close()
	if err := <-dialled; err != nil {
		t.Error(err)
	}
}

func TestABadConfigurationIsOneLineThatNamesItsFlag(t *testing.T) {
	good := config("localhost:1")
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spoil func(*coord.Config)
		flag  string
	}{
		"no durable address":         {func(c *coord.Config) { c.Durable = "" }, "--oxia:"},
		"no ephemeral address":       {func(c *coord.Config) { c.Ephemeral = "" }, "--oxia-ephemeral:"},
		"a session that would flap":  {func(c *coord.Config) { c.SessionTimeout = coord.MinSessionTimeout - 1 }, "--oxia-session-timeout:"},
		"a session beyond Oxia's":    {func(c *coord.Config) { c.SessionTimeout = 6 * time.Minute }, "--oxia-session-timeout:"},
		"calls without time":         {func(c *coord.Config) { c.RequestTimeout = 0 }, "--oxia-request-timeout:"},
		"a first contact without":    {func(c *coord.Config) { c.DialTimeout = 0 }, "--oxia-dial-timeout:"},
		"a namespace without a name": {func(c *coord.Config) { c.EphemeralNamespace = "" }, "--oxia-ephemeral-namespace:"},
	} {
		cfg := good
		tc.spoil(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(tc.flag, ":")) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want a line with %s", name, err, tc.flag)
		}
		if _, err := coord.Dial(t.Context(), cfg); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
}

func TestEveryFlagSetsWhatItNames(t *testing.T) {
	cfg := coord.DefaultConfig()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cfg.Flags(flags)
	if err := flags.Parse([]string{
		"--oxia=a:1", "--oxia-ephemeral=b:2", "--oxia-namespace=n", "--oxia-ephemeral-namespace=m",
		"--oxia-session-timeout=7s", "--oxia-request-timeout=2s", "--oxia-dial-timeout=4s",
	}); err != nil {
		t.Fatal(err)
	}
	same(t, "configuration", coord.Config{
		Durable: "a:1", Ephemeral: "b:2", DurableNamespace: "n", EphemeralNamespace: "m",
		SessionTimeout: 7 * time.Second, RequestTimeout: 2 * time.Second, DialTimeout: 4 * time.Second,
	}, cfg)
	if coord.DefaultConfig().SessionTimeout != 15*time.Second {
		t.Errorf("session timeout %v", coord.DefaultConfig().SessionTimeout)
	}
}
