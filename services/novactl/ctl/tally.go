package ctl

import (
	"context"
	"errors"
	"sync"

	"nova.internal/libs/client"
)

// tally follows the records in the order in which they were appended and counts what became of them.
// Since a producer fails everything behind its first failure, what is acknowledged is always a prefix.
type tally struct {
	sent   chan *client.Pending
	failed chan struct{} // closed at the first failure
	done   sync.WaitGroup
	notify func(acknowledged int) // nil: nobody wants to know
	late   *client.Pending        // appended when ctx ended; counted by end

	count
}

// count is what became of the records. It is for others to read once the tally has ended.
type count struct {
	acknowledged int
	unknown      int // sent, never answered: they may be stored
	first, last  uint64
	err          error // the first failure
}

// tallyDepth is how many records may be appended and not counted yet.
const tallyDepth = 1 << 14

func newTally(notify func(int)) *tally {
	t := &tally{sent: make(chan *client.Pending, tallyDepth), failed: make(chan struct{}), notify: notify}
	t.done.Go(t.run)
	return t
}

// add has p counted. It blocks while too many wait for their answers, and returns false at ctx's end.
func (t *tally) add(ctx context.Context, p *client.Pending) bool {
	select {
	case t.sent <- p:
		return true
	case <-ctx.Done():
		t.late = p
		return false
	}
}

// run ends when sent is closed. Every record is resolved at the latest when its producer is closed.
func (t *tally) run() {
	for p := range t.sent {
		sequence, err := p.Wait(context.Background())
		switch {
		case err == nil && t.err == nil:
			if t.acknowledged == 0 {
				t.first = sequence
			}
			t.acknowledged++
			t.last = sequence
			if t.notify != nil {
				t.notify(t.acknowledged)
			}
		case err != nil:
			if errors.Is(err, client.ErrOutcomeUnknown) {
				t.unknown++
			}
			if t.err == nil {
				t.err = err
				close(t.failed)
			}
		}
	}
}

// end waits until everything sent is counted and returns the count. Close the producer before.
func (t *tally) end() count {
	if t.late != nil {
		t.sent <- t.late
	}
	close(t.sent)
	t.done.Wait()
	return t.count
}
