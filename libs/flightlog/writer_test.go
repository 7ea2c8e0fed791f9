package flightlog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

func TestWhatIsAddedIsCommittedAndOnEveryCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		w, got := newWriter(t, set)
		for i := range 10 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 100))
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := uint64(0)
		for _, c := range got.commits {
			for i, b := range c.Batches {
				if b.Base != next || b.Slot != c.Slot {
					t.Errorf("slot %d, batch %d is at base %d of slot %d, want base %d", c.Slot, i, b.Base, b.Slot, next)
				}
				if diff := cmp.Diff(makeBatch(1, next, 1, 100).Records, c.Records[i]); diff != "" {
					t.Errorf("records (-want +got):\n%s", diff)
				}
				next++
			}
			if n := holders(t, copies, c.Slot); n != 3 {
				t.Errorf("slot %d is on %d copies after Close, want 3", c.Slot, n)
			}
		}
		if next != 10 {
			t.Errorf("%d batches committed, want 10", next)
		}
	})
}

func TestAnIdlePipelineClosesAFlightAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, _ := express(t)
		w, got := newWriter(t, set, func(c *flightlog.WriterConfig) { c.Linger = time.Hour })
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		synctest.Wait()
		if diff := cmp.Diff([]uint64{0}, got.slots()); diff != "" {
			t.Errorf("committed slots without any time passing (-want +got):\n%s", diff)
		}
	})
}

func TestABusyPipelineLetsAFlightLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for _, c := range copies {
			c.Inject(flightlogtest.Slow(time.Second, flightlogtest.Put))
		}
		w, _ := newWriter(t, set, func(c *flightlog.WriterConfig) { c.Linger = 20 * time.Millisecond })
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		mustAdd(t, w, makeBatch(1, 1, 1, 10))
		mustAdd(t, w, makeBatch(2, 0, 1, 10))
		time.Sleep(20*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		if s := w.State(); s.Next != 1 {
			t.Errorf("before the linger is over %d flights are sealed, want 1", s.Next)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if s := w.State(); s.Next != 2 || s.Undecided != 2 {
			t.Errorf("after the linger next slot %d and %d undecided, want 2 and 2", s.Next, s.Undecided)
		}
	})
}

func TestAFullFlightClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for _, c := range copies {
			c.Inject(flightlogtest.Slow(time.Second, flightlogtest.Put))
		}
		w, _ := newWriter(t, set, func(c *flightlog.WriterConfig) { c.Linger, c.FlightBytes = time.Hour, 1000 })
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		mustAdd(t, w, makeBatch(1, 1, 1, 500))
		mustAdd(t, w, makeBatch(1, 2, 1, 500))
		if s := w.State(); s.Next != 2 {
			t.Errorf("next slot %d with a full flight, want 2", s.Next)
		}
	})
}

func TestCommitsWaitForEarlierSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		slot0 := flightlog.SlotKey(testChain, 0)
		for _, c := range copies {
			c.Inject(func(call flightlogtest.Call) flightlogtest.Fault {
				if call.Op == flightlogtest.Put && call.Key == slot0 {
					return flightlogtest.Fault{Delay: time.Second}
				}
				return flightlogtest.Fault{}
			})
		}
		w, got := newWriter(t, set)
		for i := range 4 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
			time.Sleep(3 * time.Millisecond)
		}
		synctest.Wait()
		if s := w.State(); len(got.slots()) != 0 || s.Undecided < 2 {
			t.Errorf("with slot 0 under way %v are committed and %d undecided, want none and 2 or more", got.slots(), s.Undecided)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		slots := got.slots()
		for i, slot := range slots {
			if slot != uint64(i) {
				t.Errorf("commit %d is of slot %d", i, slot)
			}
		}
		if got.batches() != 4 {
			t.Errorf("%d batches committed, want 4", got.batches())
		}
	})
}

func TestAddBlocksOnAFullPipelineAndTakesNothingThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		release := make(chan struct{})
		for _, c := range copies {
			c.Inject(flightlogtest.Hang(release, flightlogtest.Put))
		}
		w, got := newWriter(t, set, func(c *flightlog.WriterConfig) { c.FlightBytes, c.Depth = 1000, 2 })
		taken := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := w.Add(ctx, makeBatch(1, uint64(taken), 1, 1000))
			cancel()
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Add on a full pipeline = %v, want the context's error", err)
				}
				break
			}
			if taken++; taken > 10 {
				t.Fatal("Add never blocks")
			}
		}
		if taken != 3 {
			t.Errorf("%d flights' worth taken at depth 2, want 2 in the pipeline and 1 open", taken)
		}
		close(release)
		if err := w.Add(t.Context(), makeBatch(1, uint64(taken), 1, 10)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got.batches() != taken+1 {
			t.Errorf("%d batches committed, want %d: the refused one must not be among them", got.batches(), taken+1)
		}
	})
}

func TestASlowOnCommitHoldsAddBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, _ := express(t)
		release := make(chan struct{})
		var w *flightlog.Writer
		w, _ = newWriter(t, set, func(c *flightlog.WriterConfig) {
			c.FlightBytes, c.Depth = 1000, 2
			c.OnCommit = func(flightlog.Committed) { <-release; w.State() }
		})
		taken := 0
		for ; taken < 100; taken++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := w.Add(ctx, makeBatch(1, uint64(taken), 1, 1000))
			cancel()
			if err != nil {
				break
			}
		}
		if taken > 6 {
			t.Errorf("%d flights' worth taken while none was told, want about 2 times the depth", taken)
		}
		close(release)
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestABadBatchIsRefusedAndTheWriterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, _ := express(t)
		w, got := newWriter(t, set)
		good := makeBatch(1, 0, 1, 10)
		bad := map[string]func(*flightlog.Batch){
			"a stream that is no id":       func(b *flightlog.Batch) { b.Stream = "orders" },
			"no records":                   func(b *flightlog.Batch) { b.Count = 0 },
			"no bytes":                     func(b *flightlog.Batch) { b.Records = nil },
			"sequences past the last":      func(b *flightlog.Batch) { b.Base = ^uint64(0) },
			"a producer id without an end": func(b *flightlog.Batch) { b.Producer = string(make([]byte, 1000)) },
		}
		for name, change := range bad {
			b := good
			change(&b)
			if err := w.Add(t.Context(), b); !errors.Is(err, flightlog.ErrBadBatch) {
				t.Errorf("%s: Add = %v, want ErrBadBatch", name, err)
			}
		}
		mustAdd(t, w, good)
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got.batches() != 1 {
			t.Errorf("%d batches committed, want the good one", got.batches())
		}
	})
}

func TestCloseSaysWhatItCouldNotDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for _, c := range copies {
			c.Inject(flightlogtest.Down())
		}
		w, got := newWriter(t, set)
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close with every copy away = %v, want the context's error", err)
		}
		if n := len(got.slots()) + len(got.deposedWith()); n != 0 {
			t.Errorf("%d callbacks came, want none", n)
		}
		if err := w.Add(t.Context(), makeBatch(1, 1, 1, 10)); !errors.Is(err, flightlog.ErrClosed) {
			t.Errorf("Add after Close = %v, want ErrClosed", err)
		}
	})
}

func TestAbortStopsAtOnceAndTellsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for _, c := range copies {
			c.Inject(flightlogtest.Slow(time.Second, flightlogtest.Put))
		}
		w, got := newWriter(t, set)
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		w.Abort()
		w.Wait()
		if err := w.Add(t.Context(), makeBatch(1, 1, 1, 10)); !errors.Is(err, flightlog.ErrClosed) {
			t.Errorf("Add after Abort = %v, want ErrClosed", err)
		}
		if n := len(got.slots()) + len(got.deposedWith()); n != 0 {
			t.Errorf("%d callbacks came, want none", n)
		}
	})
}

func TestAnEvenNumberOfCopiesIsRefused(t *testing.T) {
	set, _ := express(t)
	set.List = set.List[:2]
	w, got := newWriter(t, set)
	if err := w.Add(t.Context(), makeBatch(1, 0, 1, 10)); err == nil {
		t.Error("a writer over two copies took a batch")
	}
	w.Wait()
	if len(got.deposedWith()) != 1 {
		t.Errorf("OnDeposed was called %d times, want once", len(got.deposedWith()))
	}
}
