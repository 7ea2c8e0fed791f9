package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api"
)

const (
	// parting is how long Close waits for the leader's goodbye.
	parting = time.Second
	// settled is how long a handle must have lived for the next open to come without a pause.
	settled = time.Second
)

// errLeft ends a producer that was closed with nothing unanswered.
var errLeft = errors.New("left")

// run opens handle after handle until the producer is closed or fails.
func (p *Producer) run(ctx context.Context) {
	pace := newPace()
	var lost error // how the last handle ended
	for {
		at, first := time.Now(), p.firstUnanswered()
		h, err := p.openHandle(ctx, lost)
		if err == nil {
			p.client.remember(p.stream, target{star: h.call.hello.GetStar(), address: h.at.address})
			p.begin(h)
			err = p.serve(ctx, h)
			p.finish(err)
			if !errors.Is(err, errLeft) {
				p.client.forget(p.stream, h.at.address)
			}
			if p.firstUnanswered() != first || time.Since(at) > settled {
				pace.progress()
			}
		}
		lost = err
		p.note(err)
		p.client.log.DebugContext(ctx, "producer handle ended", "stream", p.stream, "err", err)
		switch {
		case errors.Is(err, errLeft), errors.Is(context.Cause(ctx), errLeft):
			return
		case ctx.Err() != nil:
			p.fail(context.Cause(ctx))
			return
		case fatal(err):
			p.fail(err)
			return
		}
		if err := p.reorder(err); err != nil {
			p.fail(err)
			return
		}
		if p.idleAndClosing() {
			return
		}
		pace.wait(ctx, err)
	}
}

// firstUnanswered tells, by its change, that there was progress.
func (p *Producer) firstUnanswered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.first()
}

// idleAndClosing reports whether Close has nothing left to wait for.
func (p *Producer) idleAndClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing && p.idle()
}

// idle reports whether everything appended is answered. mu is held.
func (p *Producer) idle() bool { return p.building.count == 0 && len(p.w.batches) == 0 }

func (p *Producer) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = err
}

// begin makes h the handle that batches are sent on.
func (p *Producer) begin(h opened[greeted]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hello := h.call.hello
	p.limits = limits{recordBytes: bound(hello.GetMaxRecordBytes()), batchBytes: bound(hello.GetMaxBatchBytes())}
	p.w.open(int(hello.GetWindowBytes()))
	p.heard, p.hang = time.Now(), h.cancel
	if !p.reopen {
		p.reopen = true
		close(p.ready)
	}
	signal(p.due)
}

// bound is a size that a server names, within what one message can carry: a larger batch would be refused
// by the transport, again and again.
func bound(named uint32) int {
	const most = api.MaxMessageBytes - 1<<20
	if named == 0 {
		return most
	}
	return min(int(named), most)
}

// finish ends the handle; err says how. After Moved its leader vouches that it took nothing beyond its
// answers, in every other case what was sent may be stored.
func (p *Producer) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = nil
	var moved *movedError
	var order *api.OutOfOrderError
	switch {
	case errors.As(err, &moved), errors.As(err, &order) && order.Expected == 1:
		// A leader that expects number 1 holds nothing of this producer, so this handle stored nothing.
		p.w.moved()
	default:
		p.w.broke()
	}
}

// reorder judges a refusal for order. Where the leader expects what comes next here, resending heals it.
// A leader that does not know the producer at all has forgotten it among others while it was idle: with
// nothing in doubt it goes on under a new identity. Otherwise batches in doubt are beyond the leader's
// memory, and sending them again could store them twice. One resend is tried all the same: the refusal
// may have been for a later batch than the first.
func (p *Producer) reorder(err error) error {
	var order *api.OutOfOrderError
	if !errors.As(err, &order) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.w.first()
	switch {
	case order.Expected == first:
		return nil
	case order.Expected == 1 && p.w.renew():
		p.id, p.disorder = newID(), 0
		return nil
	case p.disorder != first:
		p.disorder = first
		return nil
	}
	return fmt.Errorf("the leader expects batch %d of this producer and no longer remembers batch %d: %w", order.Expected, first, err)
}
