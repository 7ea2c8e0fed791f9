package star

import (
	"context"
	"errors"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/lifecycle"
)

const (
	// finishWait is how long a Finish waits for the batches in flight before it says limbo.
	finishWait = 5 * time.Second
	// publishWait bounds one try to publish the mark.
	publishWait = 10 * time.Second
	// successorFor is how long a handoff's target binds placement.
	successorFor = 10 * time.Second
	// releaseWait bounds a lease's release.
	releaseWait = 10 * time.Second
)

// departure is one leadership's way out. It is claimed once, under the stream's lock, by whoever comes
// first; everybody else may only wait for it.
type departure struct {
	reason  lifecycle.Reason
	done    chan struct{} // closed when the stream is forgotten here
	target  *novav1.Moved // handoff: whom the handles and the head name
	trigger string

	// Valid after done.
	landed  bool // the mark stands
	epoch   uint64
	covered uint64
}

func newDeparture(reason lifecycle.Reason) *departure {
	return &departure{reason: reason, done: make(chan struct{})}
}

func (d *departure) wait(ctx context.Context) error {
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish is the release flush: it waits until every accepted batch is decided, publishes refs over the
// resident span from this incarnation's own flight index with the clean-release mark in the same
// compare-and-set, tells the handles where to go, and only then lets the lease go.
//
// Nothing is accepted from the moment the departure was claimed, so whatever the answer of that set is,
// the mark covers all that was ever acknowledged here.
//
// What a crash leaves: before the set, a holder without a mark, and whoever comes next fences and scans;
// after it, a mark, and the lease dies with the session. When the answer is lost, or Oxia or the storage
// is away, the leadership is in limbo with its lease: the publication is repeatable and is retried until
// it lands or the head shows that another has taken the epoch.
func (s *stream) finish() {
	star := s.inc.star
	s.mu.Lock()
	d := s.departure
	drained := s.drained
	if len(s.pending) > 0 && drained == nil {
		drained = make(chan struct{})
		s.drained = drained
	}
	s.mu.Unlock()
	if drained != nil {
		ctx, cancel := context.WithTimeout(star.ctx, finishWait)
		defer cancel()
		select {
		case <-drained:
		case <-ctx.Done():
			s.stuck(errors.New("batches in flight are not decided"))
			return
		}
	}

	p := epoch.Publication{Epoch: s.epoch, Class: s.class, Mark: true, Batches: s.chain.batchesOf(s.id, s.epoch), Producers: s.producers}
	if d.target != nil {
		p.Successor = &novav1.Successor{Star: d.target.GetStar(), Handoff: d.target.GetHandoff(), UntilUnixMs: time.Now().Add(successorFor).UnixMilli()}
	}
	ctx, cancel := context.WithTimeout(star.ctx, publishWait)
	defer cancel()
	head, err := s.guard.Publish(ctx, p)
	switch {
	case err == nil:
		s.chain.covered(s.id, head)
		farewell := star.farewell(s, d)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.forgotten { // a deletion or the loss of the chain was first
			return
		}
		d.landed, d.epoch, d.covered = true, s.epoch, head.GetCovered()
		s.covered = head.GetCovered()
		for h := range s.handles {
			farewell(h)
		}
		star.report.released(s, d)
		s.fire(lifecycle.FinishLanded{})
	case errors.Is(err, epoch.ErrDeposed), errors.Is(err, epoch.ErrDeleted):
		s.depose(err)
	default:
		s.stuck(err)
	}
}

// producers is the idempotence table as of a sequence.
func (s *stream) producers(end uint64) []*novav1.ProducerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Snapshot(end)
}

// stuck puts the departure into limbo: the lease stays, opens bounce, the handles look elsewhere.
func (s *stream) stuck(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inc.star.report.limbo(s, err)
	s.endHandles(unavailable(novav1.Unavailable_REASON_LIMBO, "the leadership could not be certified yet; open again and resend what was not answered"))
	s.fire(lifecycle.FinishStuck{})
}

// retryFinish tries again after a pause that grows while the departure stays in limbo.
func (s *stream) retryFinish() {
	s.mu.Lock()
	s.limbos++
	pause := min(retryFirst<<min(s.limbos, 8), 2*retryMost)
	s.mu.Unlock()
	sleep(s.inc.star.ctx, pause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fire(lifecycle.Retry{})
}

// depose ends the leadership without a mark: a newer epoch or a deletion stands in the head, or the
// chain is lost. What is undecided is answered with "unknown".
func (s *stream) depose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := unknownOutcome()
	if errors.Is(err, epoch.ErrDeleted) {
		why = api.ErrUnknownStream
	}
	s.endHandles(why)
	if s.fire(lifecycle.Deposed{}) {
		s.inc.star.report.deposed(s, err)
	}
}

// farewell says what the handles hear when a departure has landed.
func (s *Star) farewell(st *stream, d *departure) func(*handle) {
	switch {
	case d.target != nil:
		return func(h *handle) { h.move(d.target) }
	case d.reason == lifecycle.Supersede:
		err := &api.FencedError{Epoch: st.epoch, Why: "a newer producer has opened this fenced stream; stop producing"}
		return func(h *handle) { h.end(err) }
	}
	moved := &novav1.Moved{}
	if next, err := s.designateWithoutMe(st.id); err == nil {
		moved.Star, moved.Address = next.Star.Name, next.Star.Address
		return func(h *handle) { h.move(moved) }
	}
	return func(h *handle) {
		h.end(unavailable(novav1.Unavailable_REASON_DEPARTING, "this star is letting the stream go; open it again"))
	}
}

// releaseLease lets the lease go on a context of its own, so that nobody's cancellation leaves it
// standing. It deletes at the version acquired: a lease that was healed since is not touched. mu is held.
func (s *stream) releaseLease() {
	if !s.leased {
		return
	}
	s.leased = false
	lease, star := s.lease, s.inc.star
	star.goes(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(star.ctx), releaseWait)
		defer cancel()
		for {
			err := star.fleet.Leases().Release(ctx, lease)
			if err == nil {
				return
			}
			if !sleep(ctx, retryFirst) {
				star.log.Warn("lease not released; it ends with the session", "stream", s.name, "err", err)
				return
			}
		}
	})
}
