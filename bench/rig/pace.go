package rig

import (
	"context"
	"time"

	"nova.internal/bench/physical"
	"nova.internal/libs/api/batch"
)

// Pace is a steady trickle: so many records a second, one after the other to the producers in turn.
type Pace struct {
	RecordBytes int
	PerSecond   int
}

// paceTick is how often the trickle looks what is due.
const paceTick = time.Millisecond

// Run appends at that pace for d, then waits for the answers. It returns how many records there were.
func (p Pace) Run(ctx context.Context, producers Producers, d time.Duration) (int64, error) {
	record := batch.Record{Value: physical.Noise(p.RecordBytes)}
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	sent := int64(0)
	for began := time.Now(); time.Since(began) < d; {
		for due := int64(time.Since(began).Seconds() * float64(p.PerSecond)); sent < due; sent++ {
			producers[sent%int64(len(producers))].Append(ctx, record) // a failure is the producer's, and Flush tells it
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
	return sent, producers.each(func(i int) error { return producers[i].Flush(ctx) })
}
