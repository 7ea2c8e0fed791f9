// Package child runs parts of a benchmark in processes of their own: servers that are compared with nova,
// so that their heap and scheduler are their own, and a fleet whose death has to be a real SIGKILL.
//
// A child is this very program, started again with a role in its environment. It lives until its parent
// kills it or is gone: its standard input ends with the parent.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	variable = "NOVA_BENCH_ROLE"
	ready    = "ready "
)

// Role is what a child does: it takes its configuration, starts serving and calls ready with one line that
// its parent is told. It may return after that; the process lives on.
type Role func(config json.RawMessage, ready func(line string)) error

// Play plays a role, and never returns, when this process was started as a child. Else it does nothing.
func Play(roles map[string]Role) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	stdin := bufio.NewReader(os.Stdin)
	err := fmt.Errorf("no role %q", name)
	if role, known := roles[name]; known {
		var config []byte
		if config, err = stdin.ReadBytes('\n'); err == nil {
			err = role(config, func(line string) { fmt.Println(ready + line) })
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, stdin) // ends with the parent
	os.Exit(0)
}

// Process is a running child.
type Process struct {
	Line string // what it called ready with
	cmd  *exec.Cmd
	in   io.WriteCloser
	gone chan struct{}
	err  error
}

// Start starts a child in a role and waits until it is ready, or for ctx's end.
func Start(ctx context.Context, role string, config any) (*Process, error) {
	encoded, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", role, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), variable+"="+role), os.Stderr
	p.cmd.WaitDelay = time.Second
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	told := make(chan string, 1)
	go func() {
		defer close(p.gone)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if line, ok := strings.CutPrefix(lines.Text(), ready); ok {
				told <- line
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // until it is gone
		p.err = p.cmd.Wait()
	}()
	if _, err := p.in.Write(append(encoded, '\n')); err != nil {
		p.Kill()
		return nil, fmt.Errorf("configure %s: %w", role, errors.Join(err, p.err))
	}
	select {
	case p.Line = <-told:
		return p, nil
	case <-p.gone:
		return nil, fmt.Errorf("%s ended before it was ready: %w", role, p.err)
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("%s is not ready: %w", role, context.Cause(ctx))
	}
}

// Kill ends the child by SIGKILL and waits until it is gone. A second Kill is harmless.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // one that has ended already is no worse
	<-p.gone
	_ = p.in.Close()
}
