package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nova.internal/e2e/process"
)

// ran runs a program to its end and holds it to an exit code, one line on stderr, and what that says.
func ran(t *testing.T, stdin string, code int, says, binary string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stdout, stderr, got, err := process.Run(ctx, stdin, binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	stderr = strings.TrimSpace(stderr)
	lines := 0
	for line := range strings.Lines(stderr) { // log lines of a service are JSON
		if !strings.HasPrefix(line, "{") {
			lines++
		}
	}
	want := 1
	if code == 0 {
		want = 0
	}
	if got != code || lines != want || !strings.Contains(stderr, says) || strings.Contains(stderr, "panic") {
		t.Errorf("%s %s: exit code %d and\n%s\nwant %d and one line with %q", filepath.Base(binary), strings.Join(args, " "), got, stderr, code, says)
	}
	return stdout
}

func TestBadInputIsOneClearErrorAndNothingIsLost(t *testing.T) {
	nova := startNova(t, "--max-record-bytes", "1KiB")
	ctl := func(stdin string, code int, says string, args ...string) string {
		t.Helper()
		return ran(t, stdin, code, says, binaries["novactl"], append([]string{"--gateway", nova.Gateway}, args...)...)
	}
	ctl("", 0, "", "stream", "create", "orders", "--class", "express")
	ctl("one\ntwo\n", 0, "", "produce", "orders")

	ctl("", 1, "no such stream", "consume", "nothing")
	ctl("x\n", 1, "no such stream", "produce", "nothing")
	ctl("", 1, "no such stream", "stream", "delete", "nothing")
	ctl("", 1, "another mode or class", "stream", "create", "orders", "--class", "standard")
	ctl("", 2, "class", "stream", "create", "x", "--class", "gold")
	ctl("", 2, "name", "stream", "create", "a\tb")
	ctl("", 2, "name", "stream", "create", strings.Repeat("x", 256))
	ctl("fine\n"+strings.Repeat("x", 2000)+"\n", 1, "line 2", "produce", "orders")
	ctl("", 1, "star-9", "handoff", "orders", "--to", "star-9")
	ctl("", 2, "", "consume", "orders", "--from", "yesterday")

	out := ctl("", 0, "", "consume", "orders", "--from", "first")
	if !strings.HasPrefix(out, "one\ntwo\n") || strings.Contains(out, "xx") {
		t.Errorf("what was acknowledged reads as %q", out)
	}
	// A deleted name can be created again, and is another stream.
	ctl("", 0, "", "stream", "delete", "orders")
	ctl("", 1, "no such stream", "consume", "orders")
	ctl("", 0, "", "stream", "create", "orders", "--class", "standard")
	if out := ctl("", 0, "", "consume", "orders", "--from", "first"); out != "" {
		t.Errorf("a record crossed from one life of the name to the other: %q", out)
	}
	ctl("new\n", 0, "", "produce", "orders")
	if out := ctl("", 0, "", "consume", "orders", "--from", "first"); out != "new\n" {
		t.Errorf("the new stream reads as %q", out)
	}

	gone := freeAddress(t)
	ran(t, "", 1, gone, binaries["novactl"], "--gateway", gone, "stream", "list")
}

func TestAStartThatCannotWorkSaysWhyAndExitsWith2(t *testing.T) {
	nova := startNova(t)
	data := dataOf(t, nova)
	free := []string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	ran(t, "", 2, "in use", binaries["nova"], append([]string{"--data", data}, free...)...)
	ran(t, "", 2, "another process has it", binaries["nova"], "--data", t.TempDir(), "--listen", nova.Gateway, "--http", "127.0.0.1:0")
	ran(t, "", 2, "--stars", binaries["nova"], "--stars", "0")
	ran(t, "", 2, "--max-record-bytes", binaries["nova"], "--max-record-bytes", "a lot")
	ran(t, "", 2, "heartbeats", binaries["nova"], "--oxia-session-timeout", "1s")
	ran(t, "", 2, "NOVA_STARS", "env", "NOVA_STARS=many", binaries["nova"])

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ran(t, "", 2, "not a directory", binaries["nova"], append([]string{"--data", filepath.Join(file, "data")}, free...)...)

	// Separate services: an Oxia and a copy that are not there.
	gone := freeAddress(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	for _, oxia := range []string{gone, lis.Addr().String()} {
		ran(t, "", 2, oxia, binaries["placer"], "--oxia", oxia, "--oxia-ephemeral", oxia, "--listen", "127.0.0.1:0")
	}
	infra := startProcesses(t, 0)
	ran(t, "", 2, "standard", binaries["sequencer"], append(infra.env, "--star", "x", "--standard-copies", "file://"+filepath.Join(file, "copy"))...)
	ran(t, "", 2, "star", binaries["sequencer"], append(infra.env, "--star", "no/slash")...)
	ran(t, "", 2, "nats", binaries["sequencer"], append(infra.env, "--star", "x", "--nats", "http://what")...)
}

// TestAReadOnlyAndAFullDataFolder mounts small file systems, which takes the right to do so.
func TestAReadOnlyAndAFullDataFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system takes root")
	}
	mount := func(options string) string {
		dir := t.TempDir()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
			t.Skipf("this machine mounts nothing: %v %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
				t.Errorf("umount: %v %s", err, out)
			}
		})
		return dir
	}
	free := []string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	ran(t, "", 2, "read-only", binaries["nova"], append([]string{"--data", mount("ro")}, free...)...)
	ran(t, "", 2, "free", binaries["nova"], append([]string{"--data", mount("size=8m")}, free...)...)
}

// dataOf finds the data folder that a running fleet was started on.
func dataOf(t *testing.T, nova *process.Nova) string {
	t.Helper()
	for i, arg := range nova.Args() {
		if arg == "--data" {
			return nova.Args()[i+1]
		}
	}
	t.Fatal("the fleet was started without --data")
	return ""
}
