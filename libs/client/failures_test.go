package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

// A producer that fails leaves no hole: what is stored is the first records appended, each once, whatever
// was broken when it gave up. What it called acknowledged lies where it said, what it called unknown may be
// stored, and nothing else is.
func TestAFailedProducerLeavesNoHole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		chance := rapid.SampledFrom([]int{0, 10, 60, 200})
		opts := clienttest.Options{
			NoNetwork:   true,
			Stars:       rapid.IntRange(1, 3).Draw(rt, "stars"),
			WindowBytes: rapid.SampledFrom([]int{10, 200, 1 << 20}).Draw(rt, "window"),
			RetryAfter:  50 * time.Millisecond,
			Fault: clienttest.Random(rapid.Uint64().Draw(rt, "seed"), map[clienttest.Fault]int{
				clienttest.Refuse:   chance.Draw(rt, "refuse"),
				clienttest.LoseAck:  chance.Draw(rt, "lose ack"),
				clienttest.CutConn:  chance.Draw(rt, "cut"),
				clienttest.Move:     chance.Draw(rt, "move"),
				clienttest.Overload: chance.Draw(rt, "overload"),
				clienttest.LateAck:  chance.Draw(rt, "late"),
				clienttest.Swallow:  chance.Draw(rt, "swallow"),
			}),
		}
		producer := client.ProducerOptions{
			MaxBatchBytes:   rapid.SampledFrom([]int{20, 100}).Draw(rt, "batch bytes"),
			DeliveryTimeout: rapid.SampledFrom([]time.Duration{50 * time.Millisecond, 500 * time.Millisecond, time.Hour}).Draw(rt, "delivery timeout"),
			Silence:         200 * time.Millisecond,
		}
		direct := rapid.Bool().Draw(rt, "direct")
		appends := rapid.IntRange(1, 60).Draw(rt, "appends")
		pause := time.Duration(rapid.IntRange(0, 5).Draw(rt, "pause")) * time.Millisecond
		patience := time.Duration(rapid.IntRange(0, 300).Draw(rt, "patience")) * time.Millisecond

		var wrong []string // rapid's own failures must not be raised on a bubble's goroutine
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.New(t, opts)
			f.Create("s", novav1.Mode_MODE_ANY)
			c, err := client.Dial(t.Context(), client.Config{Gateway: f.Gateway(), Direct: direct, DialOptions: f.DialOptions()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p, err := c.Producer(t.Context(), "s", producer)
			if err != nil {
				t.Fatal(err)
			}
			var pending []*client.Pending
			for i := range appends {
				pending = append(pending, p.Append(t.Context(), value("%d", i)))
				time.Sleep(pause)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			failed := p.Close(ctx)
			time.Sleep(time.Second) // what was sent arrives
			wrong = judge(f.Values(t, "s"), pending, failed)
		})
		for _, w := range wrong {
			rt.Error(w)
		}
	})
}

// judge holds what is stored against what was said about it.
func judge(stored []string, pending []*client.Pending, failed error) (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for i, v := range stored {
		if v != fmt.Sprint(i) {
			fault("record %s is stored at %d: %v", v, i, stored)
		}
	}
	var first error
	for i, p := range pending {
		select {
		case <-p.Done():
		default:
			fault("record %d has no outcome after Close", i)
			continue
		}
		base, err := p.Wait(context.Background())
		switch {
		case err == nil && first != nil:
			fault("record %d was acknowledged behind a failure: %v", i, first)
		case err == nil && (base != uint64(i) || i >= len(stored)):
			fault("record %d was acknowledged at %d; %d are stored", i, base, len(stored))
		case err != nil && !errors.Is(err, client.ErrOutcomeUnknown) && i < len(stored):
			fault("record %d is stored and its failure denies it: %v", i, err)
		}
		if first == nil {
			first = err
		}
	}
	if (first == nil) != (failed == nil) {
		fault("Close returned %v, the first failure is %v", failed, first)
	}
	return wrong
}
