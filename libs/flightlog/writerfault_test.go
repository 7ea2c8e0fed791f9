package flightlog_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// S14: the store applies a put and loses the answer.
func TestALostAnswerOfAnyPutIsRecognisedAsOnesOwn(t *testing.T) {
	for n := 1; n <= 6; n++ {
		t.Run(fmt.Sprint("put ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set, copies := express(t)
				for _, c := range copies {
					c.Inject(func(call flightlogtest.Call) flightlogtest.Fault {
						if call.Op == flightlogtest.Put && call.N == n {
							return flightlogtest.Fault{Lose: flightlogtest.ErrInjected}
						}
						return flightlogtest.Fault{}
					})
				}
				w, got := newWriter(t, set)
				for i := range 6 {
					mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
					synctest.Wait()
				}
				if err := w.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got.batches() != 6 || len(got.deposedWith()) != 0 {
					t.Errorf("%d of 6 batches committed, deposed: %v", got.batches(), got.deposedWith())
				}
				confirmed := 0
				for _, c := range copies {
					confirmed += len(c.Calls(flightlogtest.Confirm))
				}
				if confirmed < 3 {
					t.Errorf("%d objects that were seen were made durable before they counted, want 3", confirmed)
				}
			})
		})
	}
}

// S14, the other half: "exists" with other bytes.
func TestATakenSlotDeposes(t *testing.T) {
	poisonIn := func(slot uint64) []byte {
		return flightlog.Poison{Chain: testChain, Slot: slot, Fencer: "star-2"}.Encode()
	}
	tests := map[string]struct {
		object []byte
		on     int
		want   []uint64 // committed
		lost   bool
	}{
		"poison on one copy of three":  {poisonIn(3), 1, []uint64{0, 1, 2, 3, 4, 5}, false},
		"poison on a quorum":           {poisonIn(3), 2, []uint64{0, 1, 2}, true},
		"poison on every copy":         {poisonIn(3), 3, []uint64{0, 1, 2}, true},
		"somebody's bytes on a quorum": {[]byte("what is this"), 2, []uint64{0, 1, 2}, true},
		"an empty object on a quorum":  {nil, 2, []uint64{0, 1, 2}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set, copies := express(t)
				for _, c := range copies[:tc.on] {
					if err := c.Put(t.Context(), flightlog.SlotKey(testChain, 3), tc.object); err != nil {
						t.Fatal(err)
					}
				}
				w, got := newWriter(t, set)
				var err error
				for i := 0; i < 6 && err == nil; i++ {
					err = w.Add(t.Context(), makeBatch(1, uint64(i), 1, 10))
					synctest.Wait()
				}
				if diff := cmp.Diff(tc.want, got.slots()); diff != "" {
					t.Errorf("committed slots (-want +got):\n%s", diff)
				}
				if !tc.lost {
					if len(got.deposedWith()) > 0 {
						t.Errorf("deposed: %v", got.deposedWith())
					}
					if diff := cmp.Diff([]uint64{3}, got.missedSlots()); tc.on == 1 && len(got.missedSlots()) > 0 && diff != "" {
						t.Errorf("missed slots (-want +got):\n%s", diff)
					}
					return
				}
				if len(got.deposedWith()) != 1 || !errors.Is(got.deposedWith()[0], flightlog.ErrDeposed) {
					t.Errorf("OnDeposed heard %v, want ErrDeposed once", got.deposedWith())
				}
				if err := w.Add(t.Context(), makeBatch(1, 9, 1, 10)); !errors.Is(err, flightlog.ErrDeposed) {
					t.Errorf("Add = %v, want ErrDeposed", err)
				}
				if err := w.Close(t.Context()); !errors.Is(err, flightlog.ErrDeposed) {
					t.Errorf("Close = %v, want ErrDeposed", err)
				}
			})
		})
	}
}

func TestAFencersCompletionIsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		release := make(chan struct{})
		copies[1].Inject(flightlogtest.Hang(release, flightlogtest.Put))
		copies[2].Inject(flightlogtest.Hang(release, flightlogtest.Put))
		w, got := newWriter(t, set)
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		synctest.Wait()
		copies[2].Inject(nil)
		copies[1].Inject(flightlogtest.Down())
		if err := flightlog.NewGraveyard(set, testChain, "star-2").Complete(t.Context(), 0); err == nil {
			t.Error("a completion that did not reach every copy reported none")
		}
		copies[1].Inject(nil)
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]uint64{0}, got.slots()); diff != "" {
			t.Errorf("committed slots (-want +got):\n%s", diff)
		}
		if len(got.deposedWith()) > 0 {
			t.Errorf("deposed by a completion: %v", got.deposedWith())
		}
	})
}

// S09: the writer stalls for hours, is fenced meanwhile, and goes on.
func TestAWriterThatStalledForHoursMeetsThePoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		w, got := newWriter(t, set)
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		synctest.Wait()
		release := make(chan struct{})
		for _, c := range copies {
			c.Inject(flightlogtest.Hang(release, flightlogtest.Put))
		}
		mustAdd(t, w, makeBatch(1, 1, 1, 10))
		synctest.Wait()
		for _, c := range copies {
			p := flightlog.Poison{Chain: testChain, Slot: 1, Fencer: "star-2"}
			c.Inject(nil)
			if err := c.Put(t.Context(), flightlog.SlotKey(testChain, 1), p.Encode()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Hour)
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]uint64{0}, got.slots()); diff != "" {
			t.Errorf("committed slots (-want +got):\n%s", diff)
		}
		if len(got.deposedWith()) != 1 {
			t.Errorf("OnDeposed heard %v, want once", got.deposedWith())
		}
	})
}

// Whatever the copies do, short of losing objects: commits come in slot order without gaps, each batch
// once, each stream's batches in the order they were added, and every flight told as committed stands on
// a quorum with all earlier ones.
func TestCommitsAreOrderedAndOnAQuorumUnderAnyFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		depth := rapid.IntRange(1, 5).Draw(rt, "depth")
		adds := rapid.IntRange(1, 40).Draw(rt, "batches")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 9), 64, 64).Draw(rt, "faults")
		poisonAt := rapid.IntRange(-20, 20).Draw(rt, "poison slot")
		var wrong error // told outside of the bubble, where rapid can shrink it
		fail := func(format string, args ...any) { wrong = errors.Join(wrong, fmt.Errorf(format, args...)) }
		synctest.Test(t, func(t *testing.T) {
			set, copies := express(t)
			for i, c := range copies {
				c.Inject(func(call flightlogtest.Call) flightlogtest.Fault {
					switch k := kinds[(call.N*7+i*13)%len(kinds)]; {
					case k == 0:
						return flightlogtest.Fault{Err: flightlogtest.ErrInjected}
					case k == 1:
						return flightlogtest.Fault{Lose: flightlogtest.ErrInjected}
					case k < 6:
						return flightlogtest.Fault{Delay: time.Duration(k*k) * time.Millisecond}
					}
					return flightlogtest.Fault{}
				})
			}
			if poisonAt >= 0 {
				p := flightlog.Poison{Chain: testChain, Slot: uint64(poisonAt)}.Encode()
				for _, c := range copies[:2] {
					flightlogtest.Store(c, flightlog.SlotKey(testChain, uint64(poisonAt)), p)
				}
			}
			w, got := newWriter(t, set, func(c *flightlog.WriterConfig) { c.Depth, c.FlightBytes = depth, 200 })
			next := map[int]uint64{}
			var err error
			for i := 0; i < adds && err == nil; i++ {
				s := kinds[i%len(kinds)] % 3
				if err = w.Add(t.Context(), makeBatch(s, next[s], 2, 60)); err == nil {
					next[s] += 2
				}
				time.Sleep(time.Duration(kinds[(i*5)%len(kinds)]) * time.Millisecond / 3)
			}
			err = w.Close(t.Context())
			told := map[string]uint64{}
			for i, c := range got.commits {
				if c.Slot != uint64(i) {
					fail("commit %d is of slot %d", i, c.Slot)
				}
				if n := holders(t, copies, c.Slot); n < 2 {
					fail("slot %d was told as committed and is on %d copies", c.Slot, n)
				}
				for _, b := range c.Batches {
					if b.Base != told[b.Stream] {
						fail("stream %s goes on at %d, want %d", b.Stream, b.Base, told[b.Stream])
					}
					told[b.Stream] = b.End()
				}
			}
			switch {
			case poisonAt >= 0 && len(got.commits) > poisonAt:
				fail("slot %d is poisoned on a quorum and %d slots were committed", poisonAt, len(got.commits))
			case err != nil && !errors.Is(err, flightlog.ErrDeposed):
				fail("close: %v", err)
			case err == nil:
				for s, end := range next {
					if told[streamID(s)] != end {
						fail("stream %d was committed up to %d, added up to %d", s, told[streamID(s)], end)
					}
				}
			case len(got.deposed) != 1 || got.late > 0:
				fail("OnDeposed came %d times, %d commits after it", len(got.deposed), got.late)
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

func TestWhatWasCommittedAndNotToldBeforeADepositionIsToldToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for _, c := range copies[:2] {
			flightlogtest.Store(c, flightlog.SlotKey(testChain, 3), flightlog.Poison{Chain: testChain, Slot: 3}.Encode())
		}
		release := make(chan struct{})
		var told []uint64
		w, got := newWriter(t, set, func(c *flightlog.WriterConfig) {
			c.OnCommit = func(c flightlog.Committed) { <-release; told = append(told, c.Slot) }
		})
		var err error
		for i := 0; i < 6 && err == nil; i++ {
			err = w.Add(t.Context(), makeBatch(1, uint64(i), 1, 10))
			synctest.Wait()
		}
		if len(got.deposedWith()) > 0 {
			t.Error("OnDeposed was called beside OnCommit")
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]uint64{0}, told); diff != "" {
			t.Errorf("told, the first while it was deposed (-want +got):\n%s", diff)
		}
		if len(got.deposedWith()) != 1 {
			t.Errorf("OnDeposed heard %v, want once", got.deposedWith())
		}
	})
}
