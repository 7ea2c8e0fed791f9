package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/events"
	"nova.internal/libs/events/eventstest"
)

func TestAHandoffGoesWherePlacementSendsItAndIsAnnounced(t *testing.T) {
	f := newFleet(t, withNATS(t))
	a, b := f.star("a"), f.star("b")
	id := f.create("orders").GetId()
	var ordered *novav1.HandoffRequest
	a.handoff = func(r *novav1.HandoffRequest) (*novav1.HandoffResponse, error) {
		ordered = r
		return &novav1.HandoffResponse{Epoch: 7, Covered: 4, Taken: 8}, nil
	}
	a.lease(id)
	f.start()
	r, err := f.admin.Handoff(f.ctx(), &novav1.AdminHandoffRequest{Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	if r.GetFrom() != "a" || r.GetTo() != b.name || r.GetEpoch() != 7 || r.GetCovered() != 4 || r.GetHandoff() == "" {
		t.Errorf("answered %v", r)
	}
	if ordered.GetId() != id || ordered.GetTarget() != "b" || ordered.GetTrigger() != "operator" || ordered.GetHandoff() != r.GetHandoff() || ordered.GetEpoch() != 7 {
		t.Errorf("ordered %v", ordered)
	}
	eventually(t, "the decision is told", func() bool { return len(f.events("orders")) == 1 })
	e := f.events("orders")[0]
	var told events.Handoff
	if err := json.Unmarshal(e.Data.(json.RawMessage), &told); err != nil {
		t.Fatal(err)
	}
	if len(told.Candidates) != 1 || told.Candidates[0].Star != "b" {
		t.Errorf("candidates %v", told.Candidates)
	}
	told.Candidates = nil
	want := events.Handoff{ID: r.GetHandoff(), From: "a", To: "b", Trigger: "operator", Epoch: 7}
	if diff := cmp.Diff(want, told); diff != "" || e.Kind != events.HandoffDecided || e.Star != "a" || e.StreamID != id {
		t.Errorf("told %+v (-want +got):\n%s", e, diff)
	}
}

func TestAHandoffThatTheLeaderRefusesHasFailed(t *testing.T) {
	f := newFleet(t, withNATS(t))
	a := f.star("a")
	f.star("b")
	a.handoff = func(*novav1.HandoffRequest) (*novav1.HandoffResponse, error) {
		return nil, &api.RefusedError{Why: "the order is for epoch 1"}
	}
	a.lease(f.create("orders").GetId())
	f.start()
	var refused *api.RefusedError
	if _, err := f.admin.Handoff(f.ctx(), &novav1.AdminHandoffRequest{Name: "orders", Target: "b"}); !errors.As(api.FromError(err), &refused) {
		t.Fatalf("got %v", err)
	}
	eventually(t, "decision and end are told", func() bool { return len(f.events("orders")) == 2 })
	if e := f.events("orders")[1]; e.Kind != events.HandoffFailed || !strings.Contains(string(e.Data.(json.RawMessage)), "the order is for epoch 1") {
		t.Errorf("told %+v", e)
	}
}

func TestAHandoffHasAnEndAlsoWhenItsLeaderDiesOverIt(t *testing.T) {
	const clean, recovered = novav1.Coverage_COVERAGE_CLEAN, novav1.Coverage_COVERAGE_RECOVERED
	for name, tc := range map[string]struct {
		holder *novav1.Holder // that the order leaves behind; its handoff is filled where it is "by order"
		taken  bool
		want   events.Kind
	}{
		"the target has opened by the order":       {&novav1.Holder{Epoch: 8, Star: "b", Handoff: "by order", Coverage: clean}, true, events.HandoffFinished},
		"a producer has opened it at the target":   {&novav1.Holder{Epoch: 8, Star: "b", Coverage: clean}, true, events.HandoffFinished},
		"the target recovered what the order left": {&novav1.Holder{Epoch: 8, Star: "b", Coverage: recovered}, false, events.HandoffFailed},
		"another star has opened it":               {&novav1.Holder{Epoch: 8, Star: "c", Coverage: clean}, false, events.HandoffFailed},
		"nobody has":                               {nil, false, events.HandoffFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, func(c *Config) { c.takeWait = 100 * time.Millisecond })
			f.recorder = &eventstest.Recorder{}
			a := f.star("a")
			f.star("b")
			id := f.create("orders").GetId()
			a.lease(id)
			a.handoff = func(r *novav1.HandoffRequest) (*novav1.HandoffResponse, error) {
				if tc.holder.GetHandoff() != "" {
					tc.holder.Handoff = r.GetHandoff()
				}
				f.setHead(&novav1.HeadRow{Id: id, Epoch: 8, Holder: tc.holder})
				return nil, &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEPARTING, Why: "this star is stopping"}
			}
			f.start()
			var away *api.UnavailableError
			if _, err := f.admin.Handoff(f.ctx(), &novav1.AdminHandoffRequest{Name: "orders", Target: "b"}); !errors.As(api.FromError(err), &away) {
				t.Fatalf("got %v", err)
			}
			if !tc.taken {
				time.Sleep(3 * concludeEvery)
				if got := f.recorder.Events(events.HandoffFailed, events.HandoffFinished); len(got) > 0 {
					t.Errorf("the end was told while the leader lives: %v", got[0])
				}
			}
			a.leave()
			eventually(t, "the end is told", func() bool { return len(f.recorder.Events()) == 2 })
			e := f.recorder.Events()[1]
			told := e.Data.(events.Handoff)
			if e.Kind != tc.want || (told.Taken == 8) != tc.taken {
				t.Errorf("told %s: %+v", e.Kind, told)
			}
		})
	}
}

func TestAHandoffThatCannotBeIsRefusedWithoutADecision(t *testing.T) {
	f := newFleet(t, withNATS(t))
	a := f.star("a")
	dead := f.star("dead")
	dead.lease(f.create("orphaned").GetId())
	dead.server.Stop()
	f.create("vacant")
	a.lease(f.create("led").GetId())
	opening := f.star("opening")
	opening.opening.Store(1)
	opening.lease(f.create("being opened").GetId())
	f.start()
	for name, r := range map[string]*novav1.AdminHandoffRequest{
		"nobody leads":                {Name: "vacant", Target: "a"},
		"no such stream":              {Name: "nowhere"},
		"no such star":                {Name: "led", Target: "z"},
		"the target leads it":         {Name: "led", Target: "a"},
		"its leader is dead":          {Name: "orphaned", Target: "a"},
		"its leader is still opening": {Name: "being opened", Target: "a"},
		"a name that nothing can be":  {Name: ""},
	} {
		if _, err := f.admin.Handoff(f.ctx(), r); err == nil {
			t.Errorf("%s: it was ordered", name)
		}
	}
	if got := f.events(""); got != nil {
		t.Errorf("told %v", got)
	}
}

func TestAHandoffThatNoStarMayTakeIsAtCapacity(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.lease(f.create("led").GetId())
	f.start()
	var bound *api.BoundError
	if _, err := f.admin.Handoff(f.ctx(), &novav1.AdminHandoffRequest{Name: "led"}); !errors.As(api.FromError(err), &bound) {
		t.Errorf("got %v", err)
	}
}
