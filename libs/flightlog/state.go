package flightlog

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// State is where a writer stands.
type State struct {
	Next         uint64        // slot of the next flight
	Committed    uint64        // slots below it are committed
	Undecided    int           // flights sealed and not committed
	OldestAge    time.Duration // of the oldest undecided flight, 0 when there is none
	WaitingBytes int           // added and not told as committed
	Behind       int           // puts of committed flights that some copy still lacks
	Err          error         // why nothing is taken any more
}

// State returns where the writer stands now.
func (w *Writer) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{Next: w.next, Committed: w.committed, Undecided: len(w.pipeline), WaitingBytes: w.waiting, Err: w.err}
	if len(w.pipeline) > 0 {
		s.OldestAge = time.Since(w.pipeline[0].since)
	}
	for _, l := range w.lanes {
		for _, f := range slices.Concat(l.queue, l.flying) {
			if f.decided {
				s.Behind++
			}
		}
	}
	return s
}

const (
	// behindGrace is how long a closing writer gives the copies that lack a committed flight. What they
	// then still lack is repair's.
	behindGrace = 2 * time.Second
	// awayPause is how long a lane's rest has become when a closing writer waits for it no longer.
	awayPause = 100 * time.Millisecond
)

// Close takes nothing more, waits until all that was added is committed and told, gives copies that are
// behind a moment, and ends the writer. When ctx ends first, what is left is abandoned and may or may not
// be in the chain.
func (w *Writer) Close(ctx context.Context) error {
	err := w.drain(ctx)
	w.mu.Lock()
	w.fail(ErrClosed)
	w.mu.Unlock()
	w.work.Wait()
	return err
}

func (w *Writer) drain(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	w.sealDue()
	for w.err == nil && (w.open != nil || len(w.pipeline) > 0 || len(w.untold) > 0) {
		if err := w.await(ctx); err != nil {
			return fmt.Errorf("close chain %s with %d flights undecided: %w", w.cfg.Chain, len(w.pipeline), err)
		}
	}
	if w.err != nil {
		return w.err
	}
	ctx, cancel := context.WithTimeout(ctx, behindGrace)
	defer cancel()
	for w.err == nil && w.catchingUp() {
		if w.await(ctx) != nil {
			break
		}
	}
	w.abandonLanes()
	for w.err == nil && len(w.missed) > 0 {
		if w.await(context.Background()) != nil {
			break
		}
	}
	return nil
}

// catchingUp says whether a copy that answers still lacks a committed flight. mu is held.
func (w *Writer) catchingUp() bool {
	for _, l := range w.lanes {
		if l.pause < awayPause && len(l.queue)+len(l.flying) > 0 {
			return true
		}
	}
	return false
}

// Abort ends the writer at once: what is undecided stays so. It waits for nothing.
func (w *Writer) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(ErrClosed)
}

// Wait returns when the last goroutine of a writer that ended has ended.
func (w *Writer) Wait() { w.work.Wait() }
