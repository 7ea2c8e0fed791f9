package runtime

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

// TestMain runs the tests, or, as the child of one of them, the real Main of a small service.
func TestMain(m *testing.M) {
	if os.Getenv("NOVA_TEST_CHILD") != "" {
		cfg := &settings{Wait: time.Second, Size: 8 << 20}
		Main("child", "a service for tests", cfg, cfg.run)
	}
	goleak.VerifyTestMain(m)
}

// settings is a service's configuration.
type settings struct {
	Wait   time.Duration
	Size   Bytes
	Limit  int64
	Place  string
	Ending string
}

func (s *settings) Flags(f *pflag.FlagSet) {
	f.DurationVar(&s.Wait, "wait", s.Wait, "how long to wait")
	f.Var(&s.Size, "max-size", "largest thing")
	f.Int64Var(&s.Limit, "limit", s.Limit, "how many, 0 to 9")
	f.StringVar(&s.Place, "place", s.Place, "`HOST:PORT` to serve at")
	f.StringVar(&s.Ending, "ending", s.Ending, "how it ends")
}

func (s *settings) Validate() error {
	if s.Limit > 9 {
		return fmt.Errorf("--limit: 0 to 9, got %d", s.Limit)
	}
	return nil
}

// run ends as the flag says, or when it is told to.
func (s *settings) run(ctx context.Context, env Env) error {
	switch s.Ending {
	case "failure":
		return errors.New("it broke\nin two places")
	case "usage":
		return fmt.Errorf("start: %w", ExitError(ExitUsage, errors.New("no such place")))
	case "busy": // it hears the first signal and does not end
		fmt.Println("running")
		<-ctx.Done()
		fmt.Println("told")
		select {}
	case "starting": // its start is cut short
		fmt.Println("running")
		<-ctx.Done()
		return fmt.Errorf("dial: %w", ctx.Err())
	}
	fmt.Println("running")
	<-ctx.Done()
	return nil
}

// child starts this binary as a service.
func child(t *testing.T, args ...string) (cmd *exec.Cmd, stdout *bufio.Reader, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // one that hangs is killed
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "NOVA_TEST_CHILD=1")
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(pipe), stderr
}

func TestAnEndIsOneLineAndAnExitCode(t *testing.T) {
	tests := map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"an unknown flag":        {[]string{"--nope"}, 2, "child: unknown flag: --nope\n"},
		"a bad duration":         {[]string{"--wait=soon"}, 2, "child: invalid argument \"soon\" for \"--wait\" flag: must be a duration like \"30s\" or \"5m\"\n"},
		"a bad size":             {[]string{"--max-size=8MB"}, 2, "child: invalid argument \"8MB\" for \"--max-size\" flag: \"8MB\" is no size in bytes; want e.g. 4096, 64KiB or 8MiB\n"},
		"a stray argument":       {[]string{"now"}, 2, "child: unexpected argument \"now\"; every setting is a flag, see --help\n"},
		"a refused setting":      {[]string{"--limit=10"}, 2, "child: --limit: 0 to 9, got 10\n"},
		"a bad log level":        {[]string{"--log-level=loud"}, 2, "child: --log-level: \"loud\" is none of debug, info, warn, error\n"},
		"a bad log format":       {[]string{"--log-format=xml"}, 2, "child: --log-format: \"xml\" is none of text, json, auto\n"},
		"a failure":              {[]string{"--ending=failure"}, 1, "child: it broke in two places\n"},
		"a code that it carries": {[]string{"--ending=usage"}, 2, "child: start: no such place\n"},
		"help":                   {[]string{"--help"}, 0, ""},
		"version":                {[]string{"--version"}, 0, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd, stdout, stderr := child(t, tc.args...)
			_, _ = io.Copy(io.Discard, stdout)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tc.code || stderr.String() != tc.stderr {
				t.Errorf("exit code %d, stderr %q; want %d, %q", code, stderr, tc.code, tc.stderr)
			}
		})
	}
}

func TestSignals(t *testing.T) {
	tests := map[string]struct {
		ending  string
		signals []syscall.Signal
		code    int
	}{
		"an interrupt ends it well":               {"", []syscall.Signal{syscall.SIGINT}, 0},
		"a SIGTERM ends it well":                  {"", []syscall.Signal{syscall.SIGTERM}, 0},
		"a start that is cut short is no failure": {"starting", []syscall.Signal{syscall.SIGTERM}, 0},
		"a second one ends what does not hear":    {"busy", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, ExitSecond},
		"the second may be of the same kind":      {"busy", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, ExitSecond},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd, stdout, stderr := child(t, "--ending="+tc.ending, "--log-level=warn")
			if line, err := stdout.ReadString('\n'); line != "running\n" {
				t.Fatalf("it said %q (%v), stderr %q", line, err, stderr)
			}
			for i, s := range tc.signals {
				if i > 0 { // two pending signals of one kind are one: the first must have been taken
					if line, err := stdout.ReadString('\n'); line != "told\n" {
						t.Fatalf("it said %q (%v)", line, err)
					}
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr %q", code, tc.code, stderr)
			}
		})
	}
}

// begin starts a service in this process, with nothing in the environment but env.
func begin(cfg *settings, env map[string]string, args ...string) (stdout string, err error) {
	var out bytes.Buffer
	c := command{"svc", "a service for tests", args, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, &out, io.Discard}
	err = start(context.Background(), c, cfg, func(context.Context, Env) error { return nil })
	return out.String(), err
}

func TestAFlagIsAlsoReadFromTheEnvironment(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		args []string
		want settings
		err  string
	}{
		"neither: the default":              {want: settings{Wait: time.Second, Size: 8 << 20}},
		"the variable":                      {env: map[string]string{"NOVA_WAIT": "3s", "NOVA_MAX_SIZE": "64KiB"}, want: settings{Wait: 3 * time.Second, Size: 64 << 10}},
		"the flag wins over it":             {env: map[string]string{"NOVA_WAIT": "3s"}, args: []string{"--wait=2s"}, want: settings{Wait: 2 * time.Second, Size: 8 << 20}},
		"the flag wins also at its default": {env: map[string]string{"NOVA_WAIT": "3s"}, args: []string{"--wait=1s"}, want: settings{Wait: time.Second, Size: 8 << 20}},
		"the flag wins over nonsense":       {env: map[string]string{"NOVA_WAIT": "soon"}, args: []string{"--wait=2s"}, want: settings{Wait: 2 * time.Second, Size: 8 << 20}},
		"set to nothing is not set":         {env: map[string]string{"NOVA_WAIT": "", "NOVA_PLACE": ""}, want: settings{Wait: time.Second, Size: 8 << 20}},
		"without the prefix it is not ours": {env: map[string]string{"WAIT": "3s"}, want: settings{Wait: time.Second, Size: 8 << 20}},
		"nonsense names the variable":       {env: map[string]string{"NOVA_WAIT": "soon"}, err: "NOVA_WAIT"},
		"it is validated like the flag":     {env: map[string]string{"NOVA_LIMIT": "10"}, err: "--limit: 0 to 9"},
		"also the flags of every service":   {env: map[string]string{"NOVA_LOG_LEVEL": "loud"}, err: "loud"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := settings{Wait: time.Second, Size: 8 << 20}
			_, err := begin(&cfg, tc.env, tc.args...)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || ExitCode(err) != ExitUsage {
					t.Fatalf("err = %v (exit %d), want %q and exit 2", err, ExitCode(err), tc.err)
				}
				return
			}
			if err != nil || cfg != tc.want {
				t.Errorf("settings %+v, %v; want %+v", cfg, err, tc.want)
			}
		})
	}
}

func TestHelpShowsUnitDefaultAndVariable(t *testing.T) {
	out, err := begin(&settings{Wait: time.Second, Size: 8 << 20}, nil, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"svc: a service for tests\n",
		"--wait duration\n      how long to wait (default 1s) [NOVA_WAIT]\n",
		"--max-size bytes\n      largest thing (default 8MiB) [NOVA_MAX_SIZE]\n",
		"--limit int\n      how many, 0 to 9 (default 0) [NOVA_LIMIT]\n",
		"--place HOST:PORT\n      HOST:PORT to serve at (default none) [NOVA_PLACE]\n",
		"--log-level string\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("--help lacks %q:\n%s", want, out)
		}
	}
}
