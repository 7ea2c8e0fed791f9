package client

import (
	"context"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// newID mints a producer's identity or claim.
func newID() string { return ulid.Make().String() }

// watch fails the producer when its oldest record is not answered in time, and ends a handle that is
// silent while answers are due. Deadlines only move later while it sleeps, except where due says so.
func (p *Producer) watch(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(p.checkDeadlines(time.Now()))
		select {
		case <-timer.C:
		case <-p.due:
		case <-p.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// checkDeadlines carries out what is due and returns the time to the next deadline.
func (p *Producer) checkDeadlines(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := time.Hour
	if oldest, ok := p.oldest(); ok {
		left := p.opts.DeliveryTimeout - now.Sub(oldest)
		if left <= 0 {
			err := fmt.Errorf("%w: no answer within %v", ErrDeliveryTimeout, p.opts.DeliveryTimeout)
			if p.last != nil {
				err = fmt.Errorf("%w; the last try: %w", err, p.last)
			}
			p.failLocked(err)
			return time.Hour
		}
		next = min(next, left)
	}
	if p.hang != nil && p.w.waiting() {
		left := p.opts.Silence - now.Sub(p.heard)
		if left <= 0 {
			p.hang()
			return min(next, p.opts.Silence)
		}
		next = min(next, left)
	}
	return next
}

// oldest is when the oldest unanswered record was appended. mu is held.
func (p *Producer) oldest() (time.Time, bool) {
	switch {
	case len(p.w.batches) > 0:
		return p.w.batches[0].since, true
	case p.building.count > 0:
		return p.building.since, true
	}
	return time.Time{}, false
}

// fail ends the producer: everything unanswered resolves with why, and nothing is accepted any more.
func (p *Producer) fail(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failLocked(why)
}

func (p *Producer) failLocked(why error) {
	if p.err != nil {
		return
	}
	p.err = why
	for b, maybe := range p.w.unresolved {
		err := fmt.Errorf("batch %d to %s: %w", b.number, p.stream, why)
		if maybe {
			err = fmt.Errorf("batch %d to %s: %w: %w", b.number, p.stream, ErrOutcomeUnknown, why)
		}
		b.place.resolve(0, err)
	}
	if p.building.count > 0 {
		p.building.seal().place.resolve(0, fmt.Errorf("append to %s: %w", p.stream, why))
	}
	p.w, p.buffered = window{}, 0
	p.announce()
	p.cancel(why)
}
