package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/services/sequencer/star/lifecycle"
)

const (
	prepareWait = 2 * time.Second
	takeWait    = successorFor
)

// Handoff moves one leadership to the target (novav1.StarServer).
//
//	source:  Prepare ──▶ target: eligible? epoch as ordered?
//	source:  cut ▶ Finish: mark + successor in one set ▶ Moved to the handles ▶ lease released
//	source:  Take ────▶ target: gate, which parks until the lease has gone
//
// Until the cut a refusal leaves the source serving. After it the stream is vacant with a mark that names
// the target; if the target dies then, any star's gate passes on the mark at once. The order has one end:
// finished when the target's gate passed, failed otherwise.
func (s *Star) Handoff(ctx context.Context, r *novav1.HandoffRequest) (*novav1.HandoffResponse, error) {
	if _, err := ulid.ParseStrict(r.GetHandoff()); err != nil {
		return nil, &api.FieldError{Field: "handoff", Why: "a handoff is named by a ULID that whoever decides it mints"}
	}
	st, e, err := s.led(r.GetId())
	if err != nil {
		return nil, err
	}
	if r.GetEpoch() != 0 && r.GetEpoch() != e {
		return nil, &api.RefusedError{Why: fmt.Sprintf("the order is for epoch %d and this leadership is at epoch %d; decide again", r.GetEpoch(), e)}
	}
	target, err := s.targetOf(ctx, r.GetTarget())
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, st, target, r.GetHandoff(), e); err != nil {
		return nil, err
	}
	d := newDeparture(lifecycle.Handoff)
	d.trigger = r.GetTrigger()
	d.target = &novav1.Moved{Star: target.GetStar(), Address: target.GetAddress(), Handoff: r.GetHandoff()}
	if now, claimed := st.depart(d); !claimed {
		why := "it is vacant here now"
		if now != nil {
			why = "it departs already: " + string(now.reason)
		}
		return nil, &api.RefusedError{Why: fmt.Sprintf("stream %s: %s", st.name, why)}
	}
	// From here the handoff goes on whatever becomes of the caller.
	type result struct {
		resp *novav1.HandoffResponse
		err  error
	}
	done := make(chan result, 1)
	s.goes(func() {
		resp, err := s.handOver(st, d)
		done <- result{resp, err}
	})
	select {
	case r := <-done:
		return r.resp, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// handOver waits for the departure and has the target open its gate.
func (s *Star) handOver(st *stream, d *departure) (*novav1.HandoffResponse, error) {
	if err := d.wait(s.ctx); err != nil {
		s.report.handoffFailed(st, d, fmt.Errorf("this star stopped before the mark landed: %w", err))
		return nil, err
	}
	if !d.landed {
		err := &api.RefusedError{Why: "the leadership was deposed before its mark landed; another star leads the stream"}
		s.report.handoffFailed(st, d, err)
		return nil, err
	}
	resp := &novav1.HandoffResponse{Epoch: d.epoch, Covered: d.covered}
	ctx, cancel := context.WithTimeout(s.ctx, takeWait)
	defer cancel()
	peer, err := s.peers.star(d.target.GetAddress())
	if err == nil {
		var taken *novav1.TakeResponse
		taken, err = peer.Take(ctx, &novav1.TakeRequest{Id: st.id, Name: st.name, Handoff: d.target.GetHandoff(), From: s.cfg.Star, Trigger: d.trigger})
		resp.Taken = taken.GetEpoch()
	}
	if err != nil {
		err = fmt.Errorf("the stream left this star, but %s has not opened it; the next producer opens it where placement says: %w", d.target.GetStar(), api.FromError(err))
		s.report.handoffFailed(st, d, err)
		return resp, unavailable(novav1.Unavailable_REASON_DEPARTING, err.Error())
	}
	s.report.handoffFinished(st, d, resp.Taken)
	return resp, nil
}

// targetOf reads the target's liveness row now, and refuses one that may not lead.
func (s *Star) targetOf(ctx context.Context, name string) (*novav1.StarRow, error) {
	if name == s.cfg.Star {
		return nil, &api.RefusedError{Why: "the target is the star that leads already"}
	}
	row, err := s.fleet.Registry().Star(ctx, name)
	switch {
	case errors.Is(err, coord.ErrNotFound):
		return nil, fmt.Errorf("hand off to %s: %w in the fleet now", name, api.ErrUnknownStar)
	case err != nil:
		return nil, fmt.Errorf("read the liveness of star %s: %w", name, err)
	}
	if why := ineligible(row); why != "" {
		return nil, &api.RefusedError{Why: fmt.Sprintf("star %s may not take a leadership: %s", name, why)}
	}
	return row, nil
}

// ineligible says why a star may lead nothing new, or "".
func ineligible(row *novav1.StarRow) string {
	switch {
	case row.GetDraining() != novav1.Draining_DRAINING_NONE:
		return "it is draining"
	case row.GetSaturated():
		return "it is saturated"
	}
	return row.GetIneligible()
}

func (s *Star) prepare(ctx context.Context, st *stream, target *novav1.StarRow, handoff string, e uint64) error {
	ctx, cancel := context.WithTimeout(ctx, prepareWait)
	defer cancel()
	peer, err := s.peers.star(target.GetAddress())
	if err != nil {
		return err
	}
	_, err = peer.Prepare(ctx, &novav1.PrepareRequest{Id: st.id, Handoff: handoff, Epoch: e, From: s.cfg.Star})
	if err != nil {
		return &api.RefusedError{Why: fmt.Sprintf("star %s does not take stream %s: %v", target.GetStar(), st.name, api.FromError(err))}
	}
	return nil
}

// Prepare is the target's own check before the source cuts: that it may lead, and that the head still
// carries the epoch that the order was made for.
func (s *Star) Prepare(ctx context.Context, r *novav1.PrepareRequest) (*novav1.PrepareResponse, error) {
	if why := s.refusesLeadership(); why != "" {
		return nil, &api.RefusedError{Why: why}
	}
	head, err := s.readHead(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	if head.GetDeleted() || head.GetEpoch() != r.GetEpoch() {
		return nil, &api.RefusedError{Why: fmt.Sprintf("the order is for epoch %d and the head is at epoch %d; decide again", r.GetEpoch(), head.GetEpoch())}
	}
	return &novav1.PrepareResponse{}, nil
}

// Take opens the gate of a stream that is being handed to this star.
func (s *Star) Take(ctx context.Context, r *novav1.TakeRequest) (*novav1.TakeResponse, error) {
	name, err := s.lookup(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	if name.GetId() != r.GetId() {
		return nil, fmt.Errorf("take %s: %w: the name stands for another stream now", r.GetName(), api.ErrUnknownStream)
	}
	for {
		if why := s.refusesLeadership(); why != "" {
			return nil, &api.RefusedError{Why: why}
		}
		st := s.stream(name)
		st.open(&gate{done: make(chan struct{}), from: r.GetFrom(), fenced: name.GetMode() == novav1.Mode_MODE_FENCED, handoff: r.GetHandoff(), trigger: r.GetTrigger()})
		e, g, d := st.standing()
		switch {
		case e != 0:
			return &novav1.TakeResponse{Epoch: e}, nil
		case g != nil:
			err = g.wait(ctx)
		case d != nil:
			err = d.wait(ctx)
		}
		if err != nil {
			return nil, refusal(err, "open the gate")
		}
	}
}

// standing is where the stream stands here: the epoch it leads at, the gate under way, or the departure
// under way.
func (s *stream) standing() (leads uint64, g *gate, d *departure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.forgotten || s.state.Phase == lifecycle.Vacant:
		return 0, nil, nil
	case s.state.Phase.Leads():
		return s.epoch, nil, nil
	case s.state.Phase == lifecycle.Opening:
		return 0, s.gate, nil
	}
	return 0, nil, s.departure
}

// led finds a leadership of this star by the stream's id.
func (s *Star) led(id string) (*stream, uint64, error) {
	if st := s.current().find(id); st != nil {
		if e, _, _ := st.standing(); e != 0 {
			return st, e, nil
		}
	}
	return nil, 0, &api.RefusedError{Why: fmt.Sprintf("star %s does not lead stream %s", s.cfg.Star, id)}
}

// Release answers an opener that holds the stream's lease and read a head whose holder is this
// incarnation (alive defers). A leadership whose lease still stands serves on; one that has lost it
// finishes; and where nothing is led at that epoch, the epochs up to it are dead and this star's refs are
// the evidence.
func (s *Star) Release(ctx context.Context, r *novav1.ReleaseRequest) (*novav1.ReleaseResponse, error) {
	inc := s.current()
	finished := &novav1.ReleaseResponse{Outcome: &novav1.ReleaseResponse_Finished{Finished: true}}
	for {
		st := inc.find(r.GetId())
		if st == nil {
			break
		}
		e, g, d := st.standing()
		switch {
		case e != 0 && e == r.GetEpoch():
			lease, err := s.fleet.Leases().Holder(ctx, r.GetId())
			if err == nil && lease.GetStar() == s.cfg.Star && lease.GetIncarnation() == inc.id {
				return nil, &api.NotOwnerError{Star: s.cfg.Star, Address: s.cfg.Advertise, From: s.cfg.Star}
			}
			lost := newDeparture(lifecycle.Handoff)
			if now, claimed := st.depart(lost); !claimed && now == nil {
				continue
			} else if err := now.wait(ctx); err != nil {
				return nil, unavailable(novav1.Unavailable_REASON_LIMBO, "the holder's release has not landed yet")
			}
			return finished, nil
		case e != 0: // it leads a newer epoch than the opener has read
			return nil, &api.NotOwnerError{Star: s.cfg.Star, Address: s.cfg.Advertise, From: s.cfg.Star}
		case d != nil:
			if err := d.wait(ctx); err != nil {
				return nil, unavailable(novav1.Unavailable_REASON_LIMBO, "the holder's release has not landed yet")
			}
			return finished, nil
		case g != nil: // its own gate is under way here and decides by the head
			if err := g.wait(ctx); err != nil && errors.Is(err, ctx.Err()) {
				return nil, err
			}
			continue
		}
		break
	}
	return s.evidence(ctx, inc, r)
}

// evidence declares the epochs up to the asked one dead here and hands over what the own chain holds.
func (s *Star) evidence(ctx context.Context, inc *incarnation, r *novav1.ReleaseRequest) (*novav1.ReleaseResponse, error) {
	head, err := s.readHead(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	c := inc.chainNamed(head.GetHolder().GetChain())
	if c == nil || head.GetHolder().GetEpoch() != r.GetEpoch() {
		return nil, &api.RefusedError{Why: "the head has moved on; read it again"}
	}
	if err := c.awaitDecided(ctx, r.GetId()); err != nil {
		return nil, err
	}
	evidence := &novav1.Evidence{Covered: head.GetCovered(), Chain: c.name}
	for _, b := range c.batchesOf(r.GetId(), r.GetEpoch()) {
		evidence.Batches = append(evidence.Batches, &novav1.EvidenceBatch{
			Slot: b.Slot, Offset: b.Offset, Length: b.Length, Base: b.Base, Count: b.Count, Crc32C: b.CRC,
			Epoch: b.Epoch, Producer: b.Producer, Number: b.Number,
		})
	}
	return &novav1.ReleaseResponse{Outcome: &novav1.ReleaseResponse_Evidence{Evidence: evidence}}, nil
}
