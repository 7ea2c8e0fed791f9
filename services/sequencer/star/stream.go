package star

import (
	"sync"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/dedupe"
	"nova.internal/services/sequencer/star/lifecycle"
)

// stream is what one incarnation of a star knows of one stream: its lifecycle state and, while it leads,
// the leadership itself. It is born by the first open and forgotten when the stream is vacant here.
type stream struct {
	inc   *incarnation
	id    string
	name  string
	mode  novav1.Mode
	class novav1.Class
	chain *chain
	guard *epoch.Guard

	order sync.Mutex // see doc.go

	mu        sync.Mutex
	state     lifecycle.State
	forgotten bool // no longer in the incarnation's map: look it up again
	gate      *gate
	departure *departure
	limbos    int // how often its Finish was stuck
	idle      *time.Timer
	window    uint64 // counts idle windows, so that a late timer cannot end a later one
	lease     coord.Lease
	leased    bool

	// The leadership, valid while state.Phase leads or departs.
	epoch     uint64
	claim     string // fenced streams: of the producer it serves
	next      uint64 // the sequencer cursor
	committed uint64 // next sequence to become durable: what readers may see ends here
	covered   uint64 // as last published
	opened    time.Time
	fresh     bool // no handle has joined yet
	table     dedupe.Table
	pending   []*pending // accepted, not committed, in sequence order
	handles   map[*handle]struct{}
	tail      []tailBatch   // recent committed batches, dense up to committed
	grown     chan struct{} // closed and replaced when committed rises or the leadership ends
	drained   chan struct{} // non-nil while a departure waits for pending to empty; closed then
	meter     meter
}

// pending is a batch on its way through the chain.
type pending struct {
	producer string
	batch    dedupe.Batch
	bytes    int
	handle   *handle // who is told; nil when the producer has gone
	withdrew bool    // never joined a flight
}

// fire feeds e to the lifecycle machine and carries out what it answers. mu must be held. It reports
// whether the phase admitted the event.
func (s *stream) fire(e lifecycle.Event) bool {
	next, effects, claimed := s.state.Next(e)
	s.state = next
	for _, effect := range effects {
		switch effect {
		case lifecycle.StartGate:
			s.inc.star.goes(s.runGate)
		case lifecycle.StartIdleTimer:
			s.window++
			window := s.window
			s.idle = time.AfterFunc(s.inc.star.cfg.IdleTimeout, func() { s.idleExpired(window) })
		case lifecycle.StopIdleTimer:
			s.idle.Stop()
		case lifecycle.StartFinish:
			if s.departure == nil {
				s.departure = &departure{reason: s.state.Reason, done: make(chan struct{})}
			}
			s.inc.star.goes(s.finish)
		case lifecycle.ScheduleRetry:
			s.inc.star.goes(s.retryFinish)
		case lifecycle.EndHandles:
			s.endHandles(unknownOutcome())
		case lifecycle.ReleaseLease:
			s.releaseLease()
		case lifecycle.Forget:
			s.forget()
		}
	}
	return claimed
}

// forget takes the stream out of the incarnation's map and wakes everyone who waits on it. mu is held.
func (s *stream) forget() {
	s.forgotten = true
	s.inc.drop(s)
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
	s.inc.star.tails.forget(s)
	if s.departure != nil {
		close(s.departure.done)
	}
}

// idleExpired ends the idle window of that number, unless a rejoin has ended it already.
func (s *stream) idleExpired(window uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.window == window && s.fire(lifecycle.IdleExpired{}) {
		s.inc.star.report.idle(s)
	}
}

// depart claims the leadership for one reason. It returns the departure to wait for, the one under way
// when another initiator was first, and whether this call claimed it; nil when nothing is led here.
func (s *stream) depart(d *departure) (*departure, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.reason == lifecycle.Settled && s.state.Phase != lifecycle.Idle {
		return nil, false // a producer has come: the stream is served
	}
	if s.state.Phase.Leads() {
		s.departure = d
		s.fire(lifecycle.Depart{Reason: d.reason})
		return d, true
	}
	return s.departure, false
}

// accepts says whether a batch of epoch e may still be taken. mu is held.
func (s *stream) accepts(e uint64) bool { return s.state.Phase.Leads() && s.epoch == e }
