package flightlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// seal walks a chain from the floor 0 as its fencer does, until a poison stands on a quorum.
func seal(ctx context.Context, g *flightlog.Graveyard, pause time.Duration) (uint64, error) {
	slot := g.Committed(ctx, 0)
	for range 10_000 {
		v := g.Vote(ctx, slot)
		time.Sleep(pause) // the writer does not wait meanwhile
		switch {
		case v.Poison >= g.Quorum():
			return slot, nil
		case v.Flight >= g.Quorum():
			slot++
		case v.Flight > 0 && v.Empty > 0:
			_ = g.Complete(ctx, slot) // what could not be put shows in the next vote
		case v.Flight == 0 && v.Empty > 0 && v.Poison+v.Empty >= g.Quorum():
			_ = g.Poison(ctx, slot)
		default:
			time.Sleep(time.Second) // undecided: wait, never guess
		}
	}
	return 0, fmt.Errorf("slot %d stays undecided", slot)
}

// The fence against a writer that lives on, or dies at any point: wherever the writer stands when it is fenced, and whichever
// copy is slow, absent, or losing answers meanwhile, no slot at or above the seal is ever told as
// committed, and every slot below it can be read, also when any one copy goes away afterwards.
func TestNothingIsCommittedAtOrAboveASealAndAllBelowIsReadable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, 11), 48, 48).Draw(rt, "faults")
		depth := rapid.IntRange(1, 5).Draw(rt, "depth")
		fenceAt := time.Duration(rapid.IntRange(0, 60).Draw(rt, "fence at ms")) * time.Millisecond
		pause := time.Duration(rapid.IntRange(0, 8).Draw(rt, "fencer's pause ms")) * time.Millisecond
		downCopy, downFrom := rapid.IntRange(0, 3).Draw(rt, "copy that goes away"), time.Duration(rapid.IntRange(0, 80).Draw(rt, "from ms"))*time.Millisecond
		crashes, crashAt := rapid.Bool().Draw(rt, "crashes"), time.Duration(rapid.IntRange(0, 60).Draw(rt, "at ms"))*time.Millisecond
		var wrong error
		fail := func(format string, args ...any) { wrong = errors.Join(wrong, fmt.Errorf(format, args...)) }
		synctest.Test(t, func(t *testing.T) {
			set, copies := express(t)
			began := time.Now()
			for i, c := range copies {
				c.Inject(func(call flightlogtest.Call) flightlogtest.Fault {
					if since := time.Since(began); i == downCopy && since > downFrom && since < downFrom+time.Minute {
						return flightlogtest.Fault{Err: flightlogtest.ErrInjected}
					}
					switch k := kinds[(call.N*5+i*17+len(call.Op))%len(kinds)]; {
					case k == 0 && call.Op == flightlogtest.Put:
						return flightlogtest.Fault{Lose: flightlogtest.ErrInjected}
					case k < 8:
						return flightlogtest.Fault{Delay: time.Duration(k*k) * time.Millisecond / 2}
					}
					return flightlogtest.Fault{}
				})
			}
			w, got := newWriter(t, set, func(c *flightlog.WriterConfig) { c.Depth, c.FlightBytes = depth, 1 })
			const most = 200 // a star that cannot absorb stops at a bound, else a fencer might chase it for ever
			go func() {
				for i := range uint64(most) {
					if w.Add(t.Context(), makeBatch(1, i, 1, 20)) != nil {
						return
					}
				}
			}()
			if crashes {
				time.AfterFunc(crashAt, w.Abort)
			}
			time.Sleep(fenceAt)
			end, err := seal(t.Context(), flightlog.NewGraveyard(set, testChain, "fencer"), pause)
			if err != nil {
				fail("%w", err)
				return
			}
			_ = w.Add(t.Context(), makeBatch(1, most, 1, 20)) // the writer goes on as long as it can
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if !crashes && len(got.deposedWith()) != 1 {
				fail("the writer of a chain sealed at %d heard %v", end, got.deposedWith())
			}
			for _, slot := range got.slots() {
				if slot >= end {
					fail("slot %d was told as committed, the chain is sealed at %d", slot, end)
				}
			}
			for away := range copies {
				for i, c := range copies {
					c.Inject(nil)
					if i == away {
						c.Inject(flightlogtest.Down())
					}
				}
				r := flightlog.NewReader(set, nil)
				for slot := range end {
					if _, err := r.Descriptors(t.Context(), testChain, slot); err != nil {
						fail("without copy %d, slot %d of a chain sealed at %d: %w", away, slot, end, err)
					}
				}
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}
