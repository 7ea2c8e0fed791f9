package oxiaembed

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
)

// start runs a server until the test ends.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

var testClient = []oxia.ClientOption{
	oxia.WithBatchLinger(0),
	oxia.WithRequestTimeout(5 * time.Second),
	oxia.WithSessionTimeout(5 * time.Second),
}

// dial returns a client that is closed when the test ends, before the servers that were started earlier.
func dial(t testing.TB, addr string, options ...oxia.ClientOption) oxia.SyncClient {
	t.Helper()
	c, err := oxia.NewSyncClient(addr, append(testClient[:len(testClient):len(testClient)], options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(t testing.TB, c oxia.SyncClient, key, value string, options ...oxia.PutOption) {
	t.Helper()
	if _, _, err := c.Put(t.Context(), key, []byte(value), options...); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func want(t testing.TB, c oxia.SyncClient, key, value string) {
	t.Helper()
	if _, got, _, err := c.Get(t.Context(), key); err != nil || string(got) != value {
		t.Fatalf("get %s = %q, %v; want %q", key, got, err, value)
	}
}

func list(t testing.TB, c oxia.SyncClient, folder string) []string {
	t.Helper()
	keys, err := c.List(t.Context(), folder+"/", folder+"//")
	if err != nil {
		t.Fatalf("list %s: %v", folder, err)
	}
	return keys
}

// until waits for ok and fails the test when it does not come true in time.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// dice returns random numbers whose seed is printed.
func dice(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// child is this test binary in another process, in a role.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Scanner
}

func runChild(t testing.TB, role, arg string, attr *syscall.SysProcAttr) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, argEnv+"="+arg)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("this machine does not permit the child: %v", err)
	}
	c := &child{t: t, cmd: cmd, out: bufio.NewScanner(stdout)}
	t.Cleanup(c.kill)
	return c
}

// says returns what the child wrote behind word on its next line that begins with it.
func (c *child) says(word string) string {
	c.t.Helper()
	for c.out.Scan() {
		if rest, ok := strings.CutPrefix(c.out.Text(), word); ok {
			return strings.TrimSpace(rest)
		}
		c.t.Log("child: " + c.out.Text())
	}
	c.t.Fatalf("the child ended without saying %q", word)
	return ""
}

// kill is kill -9, and waits until the process is gone. A second one does nothing.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it was killed
	}
}

// serverRole serves a folder with sync until it is killed.
func serverRole(dir string) error {
	s, err := Start(Config{Dir: dir, Sync: true})
	if err != nil {
		return err
	}
	fmt.Println("serves", s.Addr())
	time.Sleep(2 * time.Minute)
	return s.Close()
}
