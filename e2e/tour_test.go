package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheReadmesTourWorksAsPrinted runs the tour's commands one after the other, as they are printed.
// The programs lie in bin already, the addresses are free ones, and where a fleet is started in the
// background the next command waits for it, as a person would.
func TestTheReadmesTourWorksAsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, _ := strings.Cut(string(readme), "## A tour of two minutes")
	tour, _, _ = strings.Cut(tour, "\n## ")
	dir := t.TempDir()
	if err := os.Symlink(filepath.Dir(binaries["nova"]), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	gateway, web := freeAddress(t), freeAddress(t)
	script := "set -e\ntrap 'kill -9 $! 2>/dev/null || true' EXIT\n"
	commands := 0
	for line := range strings.Lines(tour) {
		command, ok := strings.CutPrefix(line, "    ")
		command = strings.TrimSpace(command)
		if !ok || command == "make binaries" {
			continue
		}
		commands++
		script += command + "\n"
		if strings.HasSuffix(command, "&") {
			script += fmt.Sprintf("for i in $(seq 200); do curl -sf http://%s/readyz >/dev/null && break; sleep 0.1; done\n", web)
		}
	}
	script += "kill -INT $!\nwait $!\n"
	if commands < 10 {
		t.Fatalf("only %d commands were found in the tour", commands)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NOVA_LISTEN="+gateway, "NOVA_HTTP="+web, "NOVA_GATEWAY="+gateway)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "one\ntwo\nthree\n"); n != 2 {
		t.Errorf("the records were read back %d times, want before and after the kill\n%s", n, out)
	}
	for _, says := range []string{"3", "star-1", "leadership.opened", "handoff"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("the tour does not show %q\n%s", says, out)
		}
	}
}

// freeAddress is an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}
