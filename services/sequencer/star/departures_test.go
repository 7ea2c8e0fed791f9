package star

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/lifecycle"
)

// initiator begins one kind of departure of st the way that it begins in life.
type initiator func(f *testFleet, st *stream)

var initiators = map[lifecycle.Reason]initiator{
	lifecycle.IdleExpiry: func(_ *testFleet, st *stream) {
		st.mu.Lock()
		window := st.window
		st.mu.Unlock()
		st.idleExpired(window)
	},
	lifecycle.Handoff: func(f *testFleet, st *stream) {
		_, _ = f.stars["one"].Handoff(f.t.Context(), &novav1.HandoffRequest{Id: st.id, Target: "two", Handoff: ulid.Make().String(), Trigger: "test"})
	},
	lifecycle.Drain: func(_ *testFleet, st *stream) { st.depart(newDeparture(lifecycle.Drain)) },
	lifecycle.Supersede: func(_ *testFleet, st *stream) {
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.state.Phase.Leads() {
			_, _, _ = st.join(newHandle(&novav1.Open{Claim: "newer"}), &novav1.Open{Claim: "newer"})
		}
	},
	lifecycle.Delete: func(f *testFleet, st *stream) {
		_, err := epoch.NewGuard(f.meta.Rows(), st.id).Update(f.t.Context(), func(h *novav1.HeadRow) (*novav1.HeadRow, error) {
			h.Deleted = true
			return h, nil
		})
		if err != nil {
			f.t.Error(err)
		}
		_, _ = f.stars["one"].Drop(f.t.Context(), &novav1.DropRequest{Id: st.id})
	},
	lifecycle.Shutdown: func(f *testFleet, st *stream) { st.leave(f.t.Context(), lifecycle.Shutdown) },
}

// TestEveryPairOfDeparturesIsClaimedOnce begins two departures of one leadership at once, for every pair of
// reasons, many times. The leadership ends once: one departure lands or the deletion deposes it, nothing is
// certified twice, no lease stays, and every acknowledged record is below the mark.
func TestEveryPairOfDeparturesIsClaimedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.start("one")
	f.start("two")
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	var races sync.WaitGroup
	atOnce := make(chan struct{}, 64)
	for a, first := range initiators {
		for b, second := range initiators {
			for round := range rounds {
				atOnce <- struct{}{}
				races.Go(func() {
					defer func() { <-atOnce }()
					f.race(fmt.Sprintf("%s+%s/%d", a, b, round), first, second, a == lifecycle.Delete || b == lifecycle.Delete)
				})
			}
		}
	}
	races.Wait()
}

func (f *testFleet) race(name string, first, second initiator, deleted bool) {
	t := f.t
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	one := f.stars["one"]
	row, _, err := f.meta.Names().Create(ctx, &novav1.NameRow{Name: name, Id: ulid.Make().String(), Mode: novav1.Mode_MODE_FENCED, Class: standard})
	if err != nil {
		t.Error(err)
		return
	}
	st := one.stream(row)
	g := &gate{done: make(chan struct{}), claim: "older", fenced: true}
	if !st.open(g) || g.wait(ctx) != nil {
		t.Errorf("%s: the stream was not opened: %v", name, g.err)
		return
	}
	a := &novav1.Append{Number: 1, Count: 1, Records: oneRecord, Crc32C: oneRecordCRC}
	h := newHandle(&novav1.Open{Claim: "older"})
	h.stream, h.epoch = st, st.epoch
	if err := st.append(ctx, h, a); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	begin := make(chan struct{})
	var both sync.WaitGroup
	for _, initiate := range []initiator{first, second} {
		both.Go(func() { <-begin; initiate(f, st) })
	}
	close(begin)
	both.Wait()

	// It ends, whoever was first.
	st.mu.Lock()
	d, phase := st.departure, st.state.Phase
	st.mu.Unlock()
	if d == nil && !(deleted && phase == lifecycle.Vacant) {
		t.Errorf("%s: nobody's departure was claimed in %v", name, phase)
		return
	}
	if d != nil {
		if err := d.wait(ctx); err != nil {
			t.Errorf("%s: the departure for %s did not end: %v", name, d.reason, err)
			return
		}
	}
	head := &novav1.HeadRow{}
	if head, err = one.readHead(ctx, row.GetId()); err != nil {
		t.Error(err)
		return
	}
	switch {
	case deleted && head.GetDeleted():
	case !deleted && head.GetEpoch() == 1 && (!epoch.CleanlyReleased(head) || head.GetCovered() != 1):
		t.Errorf("%s: the departure for %s left the head %v", name, d.reason, head)
	case !deleted && head.GetEpoch() > 2:
		t.Errorf("%s: the epoch is %d after one leadership and at most one handoff", name, head.GetEpoch())
	case deleted:
		t.Errorf("%s: the stream was deleted and its head is %v", name, head)
	}
	for {
		lease, err := f.meta.Leases().Holder(ctx, row.GetId())
		if err != nil || lease.GetStar() == "two" { // gone, or the handoff's target has it
			if err != nil && ctx.Err() != nil {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		if !sleep(ctx, 5*time.Millisecond) {
			t.Errorf("%s: the lease stays behind the departure for %s", name, d.reason)
			return
		}
	}
}

// TestASecondInitiatorWalksAway sees the claim from outside: of two departures begun at once, each call
// learns whether it was the one.
func TestASecondInitiatorWalksAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	one := f.start("one")
	for i := range 200 {
		row := f.create(fmt.Sprint("s", i), anyMode, standard)
		st := one.stream(row)
		g := &gate{done: make(chan struct{})}
		if !st.open(g) || g.wait(t.Context()) != nil {
			t.Fatal(g.err)
		}
		claims := make(chan bool, 4)
		var all sync.WaitGroup
		for range cap(claims) {
			all.Go(func() {
				d, claimed := st.depart(newDeparture(lifecycle.Drain))
				if d != nil && d.wait(t.Context()) != nil {
					t.Error(errors.New("the departure did not end"))
				}
				claims <- claimed
			})
		}
		all.Wait()
		close(claims)
		n := 0
		for claimed := range claims {
			if claimed {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d of 4 initiators claimed one leadership", n)
		}
	}
}
