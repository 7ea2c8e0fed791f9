// Package lifecycle is the state machine of one stream on one star: how a leadership begins, idles,
// departs and ends. It is pure; the star feeds it events under one lock and carries out the effects.
//
//	           Open                 GatePassed               LastClosed (any)
//	Vacant ─────────────▶ Opening ─────────────▶ Active ◀──────────────────▶ Idle
//	   ▲                     │ GateFailed          │  Joined / rejoin          │
//	   │◀────────────────────┘                     │ Depart(reason)            │ IdleExpired
//	   │                                           ▼                           │
//	   │◀──────────── FinishLanded ─────────── Departing ◀─────────────────────┘
//	   │                                        │     ▲
//	   │                           FinishStuck  ▼     │ Retry
//	   │◀──────────── FinishLanded ──────────── Limbo ┘
//	   │
//	   └── Deposed, from every phase: ends without a mark
//
// A departure claims the leadership once: Depart moves Active or Idle to Departing, and in every other
// phase it changes nothing and tells the initiator so (specification, "Departures run once").
package lifecycle

// Phase is where a stream stands on this star.
type Phase int

const (
	Vacant    Phase = iota // nothing here
	Opening                // a gate is under way
	Active                 // leads, with at least one producer handle
	Idle                   // leads, without a handle, inside the idle timeout
	Departing              // claimed by a departure; Finish is under way
	Limbo                  // Finish could not land; the lease is kept and Finish is retried
)

func (p Phase) String() string {
	return [...]string{"vacant", "opening", "active", "idle", "departing", "limbo"}[p]
}

// Leads says whether batches are accepted.
func (p Phase) Leads() bool { return p == Active || p == Idle }

// Reason is why a leadership departs.
type Reason string

const (
	IdleExpiry Reason = "idle"
	Handoff    Reason = "handoff"
	Drain      Reason = "drain"
	Supersede  Reason = "supersede" // a newer fenced producer
	Delete     Reason = "delete"
	Shutdown   Reason = "shutdown"
	Settled    Reason = "settle" // it led only to bring a dead leader's stream to a mark
)

// State is one stream's state. The zero State is Vacant.
type State struct {
	Phase   Phase
	Handles int    // open producer handles
	Reason  Reason // of the departure, in Departing and Limbo
	Fenced  bool   // the stream admits one producer and has no idle timeout
}

// Event is what happened.
type Event interface{ event() }

type (
	Open         struct{ Fenced bool } // somebody needs the leadership: a producer, a settler, a handoff's target
	GatePassed   struct{}
	GateFailed   struct{}
	Joined       struct{} // a handle attached
	Left         struct{} // a handle detached
	IdleExpired  struct{}
	Depart       struct{ Reason Reason }
	FinishLanded struct{}
	FinishStuck  struct{}
	Retry        struct{}
	Deposed      struct{}
)

func (Open) event()         {}
func (GatePassed) event()   {}
func (GateFailed) event()   {}
func (Joined) event()       {}
func (Left) event()         {}
func (IdleExpired) event()  {}
func (Depart) event()       {}
func (FinishLanded) event() {}
func (FinishStuck) event()  {}
func (Retry) event()        {}
func (Deposed) event()      {}

// Effect is what the star must do now.
type Effect int

const (
	StartGate Effect = iota
	StartIdleTimer
	StopIdleTimer
	StartFinish
	ScheduleRetry // of a Finish that did not land, with backoff
	ReleaseLease
	EndHandles // without a mark: answer what is undecided with "unknown"
	Forget     // nothing of the stream is left here
)

// Next returns the state after e and what must be done, in order. An event that the phase does not admit
// changes nothing and returns claimed=false; for Depart that means another initiator was first.
func (s State) Next(e Event) (next State, effects []Effect, claimed bool) {
	if _, ok := e.(Deposed); ok {
		switch s.Phase {
		case Vacant, Opening: // a gate learns it itself and ends as GateFailed
			return s, nil, false
		case Idle:
			return State{}, []Effect{StopIdleTimer, ReleaseLease, Forget}, true
		default:
			return State{}, []Effect{EndHandles, ReleaseLease, Forget}, true
		}
	}
	switch s.Phase {
	case Vacant:
		if e, ok := e.(Open); ok {
			return State{Phase: Opening, Fenced: e.Fenced}, []Effect{StartGate}, true
		}
	case Opening:
		switch e.(type) {
		case GatePassed:
			// It begins without a handle; whoever opened it joins at once, or never.
			return State{Phase: Idle, Fenced: s.Fenced}, []Effect{StartIdleTimer}, true
		case GateFailed:
			return State{}, []Effect{ReleaseLease, Forget}, true
		}
	case Active:
		switch e := e.(type) {
		case Joined:
			s.Handles++
			return s, nil, true
		case Left:
			if s.Handles--; s.Handles > 0 {
				return s, nil, true
			}
			if s.Fenced { // no idle timeout: the next fenced producer must not wait
				s.Phase, s.Reason = Departing, IdleExpiry
				return s, []Effect{StartFinish}, true
			}
			s.Phase = Idle
			return s, []Effect{StartIdleTimer}, true
		case Depart:
			s.Phase, s.Reason = Departing, e.Reason
			return s, []Effect{StartFinish}, true
		}
	case Idle:
		switch e := e.(type) {
		case Joined:
			s.Phase, s.Handles = Active, 1
			return s, []Effect{StopIdleTimer}, true
		case IdleExpired:
			s.Phase, s.Reason = Departing, IdleExpiry
			return s, []Effect{StartFinish}, true
		case Depart:
			s.Phase, s.Reason = Departing, e.Reason
			return s, []Effect{StopIdleTimer, StartFinish}, true
		}
	case Departing:
		switch e.(type) {
		case Left:
			s.Handles--
			return s, nil, true
		case FinishLanded:
			return State{}, []Effect{ReleaseLease, Forget}, true
		case FinishStuck:
			s.Phase = Limbo
			return s, []Effect{ScheduleRetry}, true
		}
	case Limbo:
		switch e.(type) {
		case Left:
			s.Handles--
			return s, nil, true
		case Retry:
			s.Phase = Departing
			return s, []Effect{StartFinish}, true
		}
	}
	return s, nil, false
}
