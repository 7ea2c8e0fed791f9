package fleet

import (
	"context"
	"fmt"
	"slices"

	"nova.internal/libs/runtime"
)

// stack runs parts that stand on one another: they start in order, each once the one before serves, and
// stop in the opposite order, each once the one above has ended.
type stack struct {
	health *runtime.Health
	parts  []*part
	failed chan *part
}

type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error
	told bool // err was returned already
}

func newStack(health *runtime.Health) *stack {
	return &stack{health: health, failed: make(chan *part, 128)}
}

// push starts a part and returns once it has called ready, or with why it ended before.
func (s *stack) push(ctx context.Context, name string, run func(ctx context.Context, ready func()) error) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, stop: cancel, done: make(chan struct{})}
	ready := make(chan struct{})
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		p.err = run(own, func() { close(ready) })
		if own.Err() == nil {
			s.failed <- p
		}
	}()
	select {
	case <-ready:
		s.health.Set(name, nil)
		return nil
	case <-p.done:
		p.told = true
		return fmt.Errorf("%s: %w", name, p.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns when ctx ends, or with the error of a part that ended by itself.
func (s *stack) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-s.failed:
		p.told = true
		s.health.Set(p.name, fmt.Errorf("ended: %w", p.err))
		return fmt.Errorf("%s ended: %w", p.name, p.err)
	}
}

// close stops the parts from the top down and returns the first error of one that did not end
// well and was not told yet.
func (s *stack) close() error {
	var first error
	for _, p := range slices.Backward(s.parts) {
		p.stop()
		<-p.done
		if p.err != nil && !p.told && first == nil {
			first = fmt.Errorf("%s: %w", p.name, p.err)
		}
	}
	return first
}
