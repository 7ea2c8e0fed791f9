package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/services/sequencer/star/lifecycle"
)

// errNotLeading: the leadership asked for is not, or no longer, here.
var errNotLeading = errors.New("this star does not lead the stream")

// attach opens the stream for one producer: it joins the leadership that is here, opens the gate where
// this star is the designate, or answers where else to go.
//
// An open that meets a departure waits for it where it is about to end here (an idle expiry, a newer
// fenced producer, a settling), and is sent to the designate where the stream is on its way out (a
// handoff, a drain, limbo).
func (s *Star) attach(ctx context.Context, o *novav1.Open) (*handle, error) {
	name, err := s.lookup(ctx, o.GetName())
	if err != nil {
		return nil, err
	}
	fenced := name.GetMode() == novav1.Mode_MODE_FENCED
	if fenced && o.GetClaim() == "" {
		return nil, &api.FieldError{Field: "claim", Why: "a producer of a fenced stream opens with a claim: a new random one at its first open, the same at each reopen"}
	}
	h := newHandle(o)
	if err := s.sessions.admit(); err != nil {
		return nil, err
	}
	admitted := false
	defer func() {
		if !admitted {
			s.sessions.leave()
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st := s.stream(name)
		st.mu.Lock()
		switch {
		case st.forgotten:
			st.mu.Unlock()
		case st.state.Phase.Leads():
			joined, d, err := st.join(h, o)
			st.mu.Unlock()
			if joined || err != nil {
				admitted = joined
				return h, err
			}
			if err := d.wait(ctx); err != nil {
				return nil, err
			}
		case st.state.Phase == lifecycle.Opening:
			g := st.gate
			st.mu.Unlock()
			if err := g.wait(ctx); err != nil {
				return nil, err
			}
		case st.state.Phase == lifecycle.Vacant:
			st.mu.Unlock()
			if err := s.mayLead(ctx, name, o.GetRedirectedBy()); err != nil {
				st.forgetVacant()
				return nil, err
			}
			st.open(&gate{done: make(chan struct{}), from: o.GetRedirectedBy(), claim: o.GetClaim(), reopen: o.GetReopen(), fenced: fenced})
		default: // Departing, Limbo
			phase, d := st.state.Phase, st.departure
			st.mu.Unlock()
			if phase == lifecycle.Limbo || d.reason == lifecycle.Handoff || d.reason == lifecycle.Drain || d.reason == lifecycle.Shutdown {
				return nil, s.elsewhere(ctx, name, d, phase)
			}
			if err := d.wait(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// open starts the gate g unless something else has begun meanwhile. It reports whether g is the one
// that runs.
func (s *stream) open(g *gate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten || s.state.Phase != lifecycle.Vacant {
		return false
	}
	s.gate = g
	return s.fire(lifecycle.Open{Fenced: g.fenced})
}

// forgetVacant drops what is known of a stream that came to nothing here.
func (s *stream) forgetVacant() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Phase == lifecycle.Vacant && !s.forgotten {
		s.forget()
	}
}

// join attaches h to the leadership, or begins the departure that must end first. mu is held.
//
// On a fenced stream the claim decides: the same claim is a reconnect and replaces the older handle, a
// reopen with another claim has been superseded, a first open with another claim supersedes.
func (s *stream) join(h *handle, o *novav1.Open) (joined bool, wait *departure, err error) {
	if s.state.Fenced && h.claim != s.claim {
		if o.GetReopen() {
			return false, nil, &api.FencedError{Epoch: s.epoch, Why: "a newer producer has opened this fenced stream; stop producing"}
		}
		s.departure = newDeparture(lifecycle.Supersede)
		s.fire(lifecycle.Depart{Reason: lifecycle.Supersede})
		return false, s.departure, nil
	}
	for older := range s.handles {
		if s.state.Fenced || h.producer != "" && older.producer == h.producer {
			older.end(&api.UnavailableError{Reason: novav1.Unavailable_REASON_OVERTAKEN, Why: "the same producer has opened the stream again"})
		}
	}
	h.stream, h.epoch = s, s.epoch
	s.handles[h] = struct{}{}
	if h.producer != "" {
		s.table.Attach(h.producer)
	}
	rejoined := s.state.Phase == lifecycle.Idle && !s.fresh
	s.fresh = false
	s.fire(lifecycle.Joined{})
	if rejoined {
		s.inc.star.report.rejoined(s)
	}
	return true, nil, nil
}

// welcome is the answer to a successful open.
func (s *stream) welcome(h *handle) *novav1.Opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	cfg := s.inc.star.cfg
	return &novav1.Opened{
		Epoch: h.epoch, Next: s.next, WindowBytes: windowBytes, Star: cfg.Star,
		LastNumber: s.table.Last(h.producer), MaxRecordBytes: uint32(cfg.MaxRecordBytes), MaxBatchBytes: uint32(cfg.MaxBatchBytes),
	}
}

// detach takes h off its leadership. The last one to leave starts the idle window, or on a fenced
// stream the release.
func (s *stream) detach(h *handle) {
	defer s.inc.star.sessions.leave()
	h.end(nil)
	h.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.handles[h]; !ok {
		return
	}
	delete(s.handles, h)
	for _, p := range s.pending {
		if p.handle == h {
			p.handle = nil
		}
	}
	if h.producer != "" {
		s.table.Detach(h.producer)
	}
	s.fire(lifecycle.Left{})
}

// endHandles ends every handle of the leadership with err. mu is held.
func (s *stream) endHandles(err error) {
	for h := range s.handles {
		h.end(err)
	}
}

// unserved refuses a stream of a class that this star has no copies for.
func (s *Star) unserved(name *novav1.NameRow) error {
	if _, ok := s.copies[name.GetClass()]; ok {
		return nil
	}
	return &api.RefusedError{Why: fmt.Sprintf("star %s has no copies of class %v; start it with them", s.cfg.Star, name.GetClass())}
}

// lookup resolves a stream's name.
func (s *Star) lookup(ctx context.Context, name string) (*novav1.NameRow, error) {
	if err := api.CheckStreamName(name); err != nil {
		return nil, err
	}
	row, err := s.fleet.Names().Get(ctx, name)
	if errors.Is(err, coord.ErrNotFound) {
		return nil, fmt.Errorf("%w: %q; create it first", api.ErrUnknownStream, name)
	}
	if err != nil {
		return nil, err
	}
	return row, s.unserved(row)
}

// mayLead asks placement whether this star may open the stream's gate now; otherwise the error says who
// leads or should.
//
// A lease of this very star without a leadership is an orphan and is served: the same-owner acquire
// re-attaches it (specification, "Departures run once; the gate heals leaks"). A lease of the star that
// sent the producer here is about to go; the gate waits for it.
func (s *Star) mayLead(ctx context.Context, name *novav1.NameRow, from string) error {
	if reason := s.refusesLeadership(); reason != "" {
		return s.redirect(ctx, name.GetId(), reason)
	}
	r, err := s.resolve(ctx, name.GetId())
	if err != nil {
		return err
	}
	switch {
	case r.Holder != "" && r.Holder != s.cfg.Star && r.Holder != from:
		return &api.NotOwnerError{Star: r.Holder, Address: r.HolderAddress, From: s.cfg.Star}
	case r.Holder == s.cfg.Star:
		return nil
	case r.Designate != s.cfg.Star:
		return &api.NotOwnerError{Star: r.Designate, Address: r.DesignateAddress, From: s.cfg.Star}
	}
	return nil
}

// elsewhere answers an open of a stream that is on its way out of this star.
func (s *Star) elsewhere(ctx context.Context, name *novav1.NameRow, d *departure, phase lifecycle.Phase) error {
	if d.target != nil {
		return &api.NotOwnerError{Star: d.target.GetStar(), Address: d.target.GetAddress(), From: s.cfg.Star}
	}
	reason := novav1.Unavailable_REASON_DEPARTING
	if phase == lifecycle.Limbo {
		reason = novav1.Unavailable_REASON_LIMBO
	}
	err := s.redirect(ctx, name.GetId(), "departing")
	var bound *api.BoundError
	if errors.As(err, &bound) {
		return &api.UnavailableError{Reason: reason, Why: "the leadership is leaving this star and no other may take it yet", RetryAfter: 200 * time.Millisecond}
	}
	return err
}
