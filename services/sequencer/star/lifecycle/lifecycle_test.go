package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "nova.internal/services/sequencer/star/lifecycle"
)

func TestTransitions(t *testing.T) {
	type want struct {
		State   State
		Effects []Effect
		Claimed bool
	}
	tests := map[string]struct {
		from State
		on   Event
		want want
	}{
		"the first open starts one gate":             {State{}, Open{}, want{State{Phase: Opening}, []Effect{StartGate}, true}},
		"a second open joins the gate under way":     {State{Phase: Opening}, Open{}, want{State{Phase: Opening}, nil, false}},
		"a gate that passed waits for its handle":    {State{Phase: Opening}, GatePassed{}, want{State{Phase: Idle}, []Effect{StartIdleTimer}, true}},
		"a gate that failed leaves nothing":          {State{Phase: Opening}, GateFailed{}, want{State{}, []Effect{ReleaseLease, Forget}, true}},
		"a handle that joins in the window rejoins":  {State{Phase: Idle}, Joined{}, want{State{Phase: Active, Handles: 1}, []Effect{StopIdleTimer}, true}},
		"the last close on any starts the timer":     {State{Phase: Active, Handles: 1}, Left{}, want{State{Phase: Idle}, []Effect{StartIdleTimer}, true}},
		"another close keeps it active":              {State{Phase: Active, Handles: 2}, Left{}, want{State{Phase: Active, Handles: 1}, nil, true}},
		"the last close on fenced departs at once":   {State{Phase: Active, Handles: 1, Fenced: true}, Left{}, want{State{Phase: Departing, Reason: IdleExpiry, Fenced: true}, []Effect{StartFinish}, true}},
		"an unclaimed window departs":                {State{Phase: Idle}, IdleExpired{}, want{State{Phase: Departing, Reason: IdleExpiry}, []Effect{StartFinish}, true}},
		"an expiry that lost to a rejoin is nothing": {State{Phase: Active, Handles: 1}, IdleExpired{}, want{State{Phase: Active, Handles: 1}, nil, false}},
		"a second initiator walks away":              {State{Phase: Departing, Reason: Handoff}, Depart{Shutdown}, want{State{Phase: Departing, Reason: Handoff}, nil, false}},
		"a departure in limbo is not claimed again":  {State{Phase: Limbo, Reason: Handoff}, Depart{Drain}, want{State{Phase: Limbo, Reason: Handoff}, nil, false}},
		"a finish that landed releases the lease":    {State{Phase: Departing, Reason: Drain}, FinishLanded{}, want{State{}, []Effect{ReleaseLease, Forget}, true}},
		"a finish that is stuck keeps the lease":     {State{Phase: Departing, Reason: Drain}, FinishStuck{}, want{State{Phase: Limbo, Reason: Drain}, []Effect{ScheduleRetry}, true}},
		"limbo retries the same departure":           {State{Phase: Limbo, Reason: Drain}, Retry{}, want{State{Phase: Departing, Reason: Drain}, []Effect{StartFinish}, true}},
		"a deposed leadership ends without a mark":   {State{Phase: Active, Handles: 3}, Deposed{}, want{State{}, []Effect{EndHandles, ReleaseLease, Forget}, true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, effects, claimed := tc.from.Next(tc.on)
			if diff := cmp.Diff(tc.want, want{s, effects, claimed}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneFinishAtATime drives random events and holds the effects to what the specification demands: no
// Finish begins while another is under way, the lease is released only after a Finish landed, a gate
// failed or a deposition, and no timer runs outside Idle.
func TestOneFinishAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, finishing, timer, handles := State{}, false, false, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			e := rapid.SampledFrom([]Event{Open{}, Open{Fenced: true}, GatePassed{}, GateFailed{}, Joined{}, Left{}, IdleExpired{}, Depart{Handoff}, Depart{Shutdown}, FinishLanded{}, FinishStuck{}, Retry{}, Deposed{}}).Draw(t, "event")
			if _, ok := e.(Left); ok && handles == 0 {
				continue // only a handle that joined can leave
			}
			next, effects, claimed := s.Next(e)
			if !claimed && (next != s || len(effects) > 0) {
				t.Fatalf("%v in %v was not admitted and yet changed it to %v %v", e, s, next, effects)
			}
			if claimed {
				switch e.(type) {
				case Joined:
					handles++
				case Left:
					handles--
				}
			}
			for _, effect := range effects {
				switch effect {
				case StartFinish:
					if finishing {
						t.Fatalf("a second Finish begins in %v on %T", s, e)
					}
					finishing = true
				case ScheduleRetry:
					finishing = false
				case ReleaseLease:
					finishing = false
				case StartIdleTimer:
					timer = true
				case StopIdleTimer:
					timer = false
				case Forget:
					handles = 0
				}
			}
			if next.Phase == Departing {
				timer = false // it fired, or was stopped
			}
			if timer != (next.Phase == Idle) {
				t.Fatalf("timer runs: %v in %v", timer, next)
			}
			if next.Phase.Leads() && next.Handles != handles {
				t.Fatalf("%d handles, the state says %d", handles, next.Handles)
			}
			s = next
		}
	})
}
