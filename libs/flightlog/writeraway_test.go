package flightlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/flightlog/flightlogtest"
)

func TestASlowCopyDelaysNobodyAndIsFinishedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		copies[2].Inject(flightlogtest.Slow(300*time.Millisecond, flightlogtest.Put))
		w, got := newWriter(t, set)
		began := time.Now()
		for i := range 20 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
			synctest.Wait()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("20 commits took %v beside a slow copy, want no time", took)
		}
		if s := w.State(); got.batches() != 20 || s.Behind != 20 {
			t.Errorf("%d batches committed and %d puts behind, want 20 and 20", got.batches(), s.Behind)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for slot := range uint64(20) {
			if n := holders(t, copies, slot); n != 3 {
				t.Errorf("slot %d is on %d copies, want 3", slot, n)
			}
		}
		if len(got.missedSlots()) > 0 {
			t.Errorf("missed: %v", got.missedSlots())
		}
	})
}

func TestACopyThatComesBackIsCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		copies[0].Inject(flightlogtest.Down())
		w, got := newWriter(t, set)
		for i := range 50 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
			time.Sleep(100 * time.Millisecond)
		}
		if got.batches() != 50 {
			t.Fatalf("%d batches committed with one copy away, want 50", got.batches())
		}
		if n := len(copies[0].Calls(flightlogtest.Put)); n > 20 {
			t.Errorf("the copy that is away was asked %d times in 5 s, want it to be left in peace", n)
		}
		copies[0].Inject(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.State(); s.Behind != 0 {
			t.Errorf("%d flights are still behind after the copy came back", s.Behind)
		}
		for slot := range w.State().Next {
			if n := holders(t, copies, slot); n != 3 {
				t.Errorf("slot %d is on %d copies, want 3", slot, n)
			}
		}
	})
}

func TestACopyThatStaysAwayCostsBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		release := make(chan struct{})
		copies[1].Inject(flightlogtest.Hang(release))
		w, got := newWriter(t, set)
		for i := range 1000 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
			synctest.Wait()
		}
		s := w.State()
		if got.batches() != 1000 || s.Behind > 128+8 {
			t.Errorf("%d batches committed and %d flights kept for a copy that hangs, want 1000 and at most 136", got.batches(), s.Behind)
		}
		if missed := len(got.missedSlots()); missed != 1000-s.Behind {
			t.Errorf("%d flights reported as missing on the copy, %d kept, of 1000", missed, s.Behind)
		}
		began := time.Now()
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close waited %v for a copy that hangs", took)
		}
		if len(got.missedSlots()) != 1000 {
			t.Errorf("after Close %d flights were reported as missing, want 1000", len(got.missedSlots()))
		}
	})
}

func TestWithoutAQuorumNothingIsCommittedUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		copies[0].Inject(flightlogtest.Down())
		copies[1].Inject(flightlogtest.Down())
		w, got := newWriter(t, set)
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		time.Sleep(30 * time.Second)
		if s := w.State(); len(got.slots()) != 0 || s.OldestAge != 30*time.Second || s.Undecided != 1 {
			t.Errorf("committed %v, oldest %v, undecided %d; want none, 30s, 1", got.slots(), s.OldestAge, s.Undecided)
		}
		copies[1].Inject(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]uint64{0}, got.slots()); diff != "" {
			t.Errorf("committed after the quorum came back (-want +got):\n%s", diff)
		}
	})
}

func TestAnUndecidedFlightGoesBeforeWhatASlowCopyIsBehindWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		copies[2].Inject(flightlogtest.Slow(time.Second, flightlogtest.Put))
		w, got := newWriter(t, set)
		for i := range 60 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
			synctest.Wait()
		}
		copies[1].Inject(flightlogtest.Down())
		mustAdd(t, w, makeBatch(1, 60, 1, 10))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got.batches() != 61 {
			t.Errorf("%d of 61 batches committed, %d puts behind: the last needs the slow copy and waits for its backlog", got.batches(), w.State().Behind)
		}
	})
}
