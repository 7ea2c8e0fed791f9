package star

import (
	"context"
	"sync"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/services/sequencer/star/dedupe"
)

// handle is one producer's open Produce call on a leadership. Commits and departures speak to the
// producer through it, from any goroutine and without blocking: what they say is queued for the call's
// own goroutine to send. The queue is bounded by the window, since each Append is answered once.
type handle struct {
	stream   *stream
	producer string
	claim    string
	epoch    uint64
	wake     chan struct{} // capacity 1: there is something to send
	room     chan struct{} // capacity 1: the window has shrunk, or the handle has ended

	mu       sync.Mutex
	out      []*novav1.ProduceResponse
	inflight int // bytes received and not yet answered, against the handle's window
	admitted int // of these, what the star's admission holds
	moved    *novav1.Moved
	err      error
	ended    bool
	gone     bool // the call is over
}

func newHandle(o *novav1.Open) *handle {
	return &handle{producer: o.GetProducer(), claim: o.GetClaim(), wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (h *handle) signal() {
	for _, c := range []chan struct{}{h.wake, h.room} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// ack queues the acknowledgement of one batch and gives its bytes back to the window.
func (h *handle) ack(b dedupe.Batch, bytes int) {
	h.mu.Lock()
	h.giveBack(bytes)
	if !h.ended {
		h.out = append(h.out, &novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Ack{Ack: &novav1.Ack{Number: b.Number, Base: b.Base, Count: b.Count}}})
	}
	h.mu.Unlock()
	h.signal()
}

// end ends the handle with err after what is queued; the first end counts.
func (h *handle) end(err error) {
	h.mu.Lock()
	if !h.ended {
		h.ended, h.err = true, err
	}
	h.mu.Unlock()
	h.signal()
}

// move ends the handle by sending the producer to another star.
func (h *handle) move(m *novav1.Moved) {
	h.mu.Lock()
	if !h.ended {
		h.ended, h.moved = true, m
	}
	h.mu.Unlock()
	h.signal()
}

// take returns what is to be sent now, and whether the handle has ended with it.
func (h *handle) take() (out []*novav1.ProduceResponse, ended bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out, h.out = h.out, nil
	if h.ended && h.moved != nil {
		out = append(out, &novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Moved{Moved: h.moved}})
		h.moved = nil
	}
	return out, h.ended, h.err
}

// claimWindow counts bytes into the window and reports whether they fit; a single batch always does.
func (h *handle) claimWindow(bytes, window int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inflight > 0 && h.inflight+bytes > window {
		return false
	}
	h.inflight += bytes
	return true
}

// admit counts bytes of the window into the star's admission too, waiting until they fit.
func (h *handle) admit(ctx context.Context, bytes int) error {
	admission := h.stream.inc.star.admission
	if err := admission.take(ctx, bytes); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		admission.give(bytes)
		return errNotAccepted
	}
	h.admitted += bytes
	return nil
}

// returnWindow undoes claimWindow and admit for a batch that was answered otherwise.
func (h *handle) returnWindow(bytes int) {
	h.mu.Lock()
	h.giveBack(bytes)
	h.mu.Unlock()
	h.signal()
}

// giveBack takes bytes out of the window and the star's admission. mu is held.
func (h *handle) giveBack(bytes int) {
	h.inflight -= bytes
	if n := min(bytes, h.admitted); n > 0 {
		h.admitted -= n
		h.stream.inc.star.admission.give(n)
	}
}

// leave gives back what is still admitted when the call is over: nothing of it is answered any more.
func (h *handle) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	h.giveBack(h.admitted)
}

func (h *handle) hasEnded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// unknownOutcome is what a handle hears when its star can no longer tell what became of its batches.
func unknownOutcome() error {
	return &api.UnavailableError{
		Reason: novav1.Unavailable_REASON_OVERTAKEN,
		Why:    "this star's leadership of the stream has ended; batches without an answer may or may not be stored: open again and resend them",
	}
}
