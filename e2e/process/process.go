// Package process runs nova's real binaries for end-to-end tests and the demo: it builds them, starts
// them, reads from their greeting where they listen, and ends them well or by kill -9.
package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds the named services into dir and returns their paths.
func Build(ctx context.Context, root, dir string, services ...string) (map[string]string, error) {
	paths := map[string]string{}
	for _, s := range services {
		paths[s] = filepath.Join(dir, s)
		cmd := exec.CommandContext(ctx, "go", "build", "-o", paths[s], "./services/"+s)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", s, err, out)
		}
	}
	return paths, nil
}

// Process is one running binary.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu     sync.Mutex
	stdout bytes.Buffer
	stderr bytes.Buffer
	grown  chan struct{}
}

// Start runs a binary. What it prints is kept.
func Start(binary string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(binary, args...), done: make(chan struct{}), grown: make(chan struct{})}
	// The child dies with this process, whatever ends it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	var pipes sync.WaitGroup
	pipes.Go(func() { p.keep(stdout, &p.stdout) })
	pipes.Go(func() { p.keep(stderr, &p.stderr) })
	go func() {
		pipes.Wait()
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *Process) keep(r io.Reader, into *bytes.Buffer) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		into.WriteString(line)
		close(p.grown)
		p.grown = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Stdout and Stderr are what it has printed so far.
func (p *Process) Stdout() string { p.mu.Lock(); defer p.mu.Unlock(); return p.stdout.String() }

// Stderr is what it has printed to its standard error so far.
func (p *Process) Stderr() string { p.mu.Lock(); defer p.mu.Unlock(); return p.stderr.String() }

// Await waits until what it prints (on either pipe) matches and returns the submatches.
func (p *Process) Await(within time.Duration, pattern string) ([]string, error) {
	re := regexp.MustCompile(pattern)
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		p.mu.Lock()
		grown := p.grown
		m := re.FindStringSubmatch(p.stdout.String())
		if m == nil {
			m = re.FindStringSubmatch(p.stderr.String())
		}
		p.mu.Unlock()
		if m != nil {
			return m, nil
		}
		select {
		case <-grown:
		case <-p.done:
			return nil, fmt.Errorf("%s ended (%v) before it printed %q\n%s", filepath.Base(p.cmd.Path), p.err, pattern, p.Stderr())
		case <-timer.C:
			return nil, fmt.Errorf("%s did not print %q within %v\n%s%s", filepath.Base(p.cmd.Path), pattern, within, p.Stdout(), p.Stderr())
		}
	}
}

// Kill is kill -9.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Stop sends SIGINT once and returns the exit code; a process that outlives the bound is killed.
func (p *Process) Stop(within time.Duration) (int, error) {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return -1, err
	}
	return p.Wait(within)
}

// Wait returns the exit code once the process has ended.
func (p *Process) Wait(within time.Duration) (int, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-timer.C:
		p.Kill()
		return -1, fmt.Errorf("%s did not end within %v\n%s", filepath.Base(p.cmd.Path), within, tail(p.Stderr(), 4000))
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Nova is a whole fleet in one process.
type Nova struct {
	*Process
	Gateway string
	HTTP    string
}

// StartNova starts a fleet and waits until it serves.
func StartNova(binary, data string, args ...string) (*Nova, error) {
	p, err := Start(binary, append([]string{"--data", data}, args...)...)
	if err != nil {
		return nil, err
	}
	m, err := p.Await(60*time.Second, `(?s)gateway +gRPC (\S+)\n +http://(\S+) .*Try:`)
	if err != nil {
		p.Kill()
		return nil, err
	}
	return &Nova{Process: p, Gateway: m[1], HTTP: m[2]}, nil
}

// Run runs a command to its end and returns its output and exit code.
func Run(ctx context.Context, stdin, binary string, args ...string) (stdout, stderr string, code int, err error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode(), err
}

// Args is the command line.
func (p *Process) Args() []string { return p.cmd.Args }
