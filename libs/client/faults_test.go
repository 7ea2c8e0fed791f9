package client_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

// Whatever breaks when, a record that was acknowledged is stored exactly once, at the sequence that was
// promised, and in the order of the appends.
func TestAcknowledgedRecordsAreStoredOnceInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		chance := rapid.SampledFrom([]int{0, 5, 30, 90})
		f := clienttest.New(t, clienttest.Options{
			Stars:       rapid.IntRange(1, 3).Draw(rt, "stars"),
			WindowBytes: rapid.SampledFrom([]int{10, 200, 1 << 20}).Draw(rt, "window"),
			Fault: clienttest.Random(rapid.Uint64().Draw(rt, "seed"), map[clienttest.Fault]int{
				clienttest.Refuse:   chance.Draw(rt, "refuse"),
				clienttest.LoseAck:  chance.Draw(rt, "lose ack"),
				clienttest.CutConn:  chance.Draw(rt, "cut"),
				clienttest.Move:     chance.Draw(rt, "move"),
				clienttest.Overload: chance.Draw(rt, "overload"),
				clienttest.LateAck:  chance.Draw(rt, "late"),
			}),
		})
		mode := rapid.SampledFrom([]novav1.Mode{novav1.Mode_MODE_ANY, novav1.Mode_MODE_FENCED}).Draw(rt, "mode")
		f.Create("s", mode)
		c := dial(t, f, rapid.Bool().Draw(rt, "direct"))
		producers := 1
		if mode == novav1.Mode_MODE_ANY {
			producers = rapid.IntRange(1, 2).Draw(rt, "producers")
		}
		appends := rapid.IntRange(1, 60).Draw(rt, "appends")
		size := rapid.SampledFrom([]int{20, 100, 1 << 20}).Draw(rt, "batch bytes")

		type promise struct {
			value   string
			pending *client.Pending
		}
		promises := make([][]promise, producers)
		var open []*client.Producer
		for range producers {
			open = append(open, produce(t, c, "s", client.ProducerOptions{MaxBatchBytes: size, BufferBytes: 2000}))
		}
		for i := range appends {
			for k, p := range open {
				v := fmt.Sprintf("%d/%d", k, i)
				promises[k] = append(promises[k], promise{v, p.Append(within(t), value("%s", v))})
			}
		}
		for _, p := range open {
			if err := p.Close(within(t)); err != nil {
				rt.Fatal(err)
			}
		}
		values := f.Values(t, "s")
		if len(values) != appends*producers {
			rt.Errorf("%d records stored, %d appended", len(values), appends*producers)
		}
		for _, ps := range promises {
			after := -1
			for _, p := range ps {
				base, err := p.pending.Wait(within(t))
				if err != nil {
					rt.Fatal(err)
				}
				if base >= uint64(len(values)) || values[base] != p.value {
					rt.Errorf("record %s was promised at %d and is not there", p.value, base)
				}
				if int(base) <= after {
					rt.Errorf("record %s lies at %d, before an earlier one at %d", p.value, base, after)
				}
				after = int(base)
			}
		}
	})
}
