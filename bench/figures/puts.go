package figures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/bench/figure"
	"nova.internal/bench/rig"
	"nova.internal/libs/client"
	"nova.internal/services/nova/fleet"
)

// puts are how often an object store is called: it is what object stores charge for.
func puts() []Figure {
	trickle := func(name string, streams func(*Env) int) Figure {
		return Figure{figure.Spec{Name: name, Unit: "puts/s", Against: "the same records to one stream", Target: figure.RatioAtMost(1.1)}, putsPerSecond(streams)}
	}
	perGiB := func(name string, streams func(*Env) int) Figure {
		return Figure{figure.Spec{Name: name, Unit: "puts/GiB", Against: "flights that are full to the byte"}, putsPerGiB(load{streams, rig.Direct, standard})}
	}
	return []Figure{
		trickle("puts-per-second-100", func(e *Env) int { return min(100, e.Most) }),
		trickle("puts-per-second-10000", most),
		perGiB("puts-per-gib-1", one),
		perGiB("puts-per-gib-1000", many),
	}
}

// trickle is 2,000 records a second.
func (e *Env) trickle() rig.Pace {
	return rig.Pace{RecordBytes: e.RecordBytes, PerSecond: 2000}
}

// roomy keeps the streams of a figure open however many there are, and gives the fleet's stop the time to
// release them.
func roomy(cfg *fleet.Config) { cfg.Star.StopBudget = 2 * time.Minute }

// putsPerSecond counts the flights of a steady trickle that goes to many streams, and to one.
func putsPerSecond(streams func(*Env) int) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx, roomy)
		if err != nil {
			return figure.Result{}, err
		}
		n := streams(e)
		pairs, err := func() ([]figure.Pair, error) {
			lone, err := b.trickled(ctx, "lone", 1)
			if err != nil {
				return nil, err
			}
			all, err := b.trickled(ctx, "all", n)
			if err != nil {
				return nil, errors.Join(err, lone.Close(ctx))
			}
			pairs, err := e.rounds(ctx, s.Name, b.countPuts(lone), b.countPuts(all))
			return pairs, errors.Join(err, lone.Close(ctx), all.Close(ctx))
		}()
		return finish(s, pairs, fmt.Sprintf("2,000 records of %d bytes a second over %d streams", e.RecordBytes, n), errors.Join(err, b.close()))
	}
}

// trickled creates n streams and opens a producer on each.
func (b *board) trickled(ctx context.Context, prefix string, n int) (rig.Producers, error) {
	names, err := b.Create(ctx, prefix, n, standard)
	if err != nil {
		return nil, err
	}
	return rig.Open(ctx, b.clients[rig.Direct], names, client.ProducerOptions{BufferBytes: 1 << 20})
}

// countPuts is how many flights a second the trickle to the producers makes.
func (b *board) countPuts(producers rig.Producers) measure {
	return func(ctx context.Context) (float64, error) {
		before, _, err := b.Objects()
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if _, err := b.env.trickle().Run(ctx, producers, b.env.For); err != nil {
			return 0, err
		}
		elapsed := time.Since(began)
		after, _, err := b.Objects()
		return float64(len(after)-len(before)) / elapsed.Seconds(), err
	}
}

// putsPerGiB counts the flights of a load that is as fast as it goes.
func putsPerGiB(l load) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx, nil)
		if err != nil {
			return figure.Result{}, err
		}
		var pairs []figure.Pair
		append, err := b.append(ctx, l)
		if err == nil {
			full := func(context.Context) (float64, error) { return float64(1<<30) / float64(e.FlightBytes), nil }
			pairs, err = e.rounds(ctx, s.Name, full, func(ctx context.Context) (float64, error) {
				before, _, err := b.Objects()
				if err != nil {
					return 0, err
				}
				moved, err := append(ctx)
				if err != nil {
					return 0, err
				}
				after, _, err := b.Objects()
				return float64(len(after)-len(before)) / float64(moved.Bytes) * (1 << 30), err
			})
		}
		return finish(s, pairs, fmt.Sprintf("%d stream(s), records of %d bytes", l.streams(e), e.RecordBytes), errors.Join(err, b.close()))
	}
}
