package figures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"nova.internal/bench/figure"
	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/coord"
	"nova.internal/services/nova/fleet"
)

// linger is how long the SDK waits for more records before it sends a lone one: its default.
const linger = time.Millisecond

// latencies are figures of one thing at a time.
func latencies() []Figure {
	return []Figure{
		{figure.Spec{Name: "append-sync", Unit: "ms p50", Against: "linger (1 ms) and twice the p50 of the plain loop at the size of a flight with one record", Target: figure.RatioAtMost(1)}, appendSync},
		{figure.Spec{Name: "open-vacant", Unit: "ms p50", Against: "p50 of one fsynced compare-and-set in the fleet's Oxia", Target: figure.ValueAtMost(5)}, openVacant(rig.Direct)},
		{figure.Spec{Name: "open-vacant-gateway", Unit: "ms p50", Against: "p50 of one fsynced compare-and-set in the fleet's Oxia", Target: figure.ValueAtMost(5)}, openVacant(rig.Gateway)},
		{figure.Spec{Name: "follow-latency", Unit: "ms p99", Against: "p99 of an empty gRPC round trip", Target: figure.ValueAtMost(2)}, followLatency},
	}
}

// oneRecordFlight is about what a flight with one record has beside the record: header, table, checksum.
const oneRecordFlight = 200

// appendSync appends a record, waits for its answer, and goes on.
func appendSync(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
	b, err := e.board(ctx, nil)
	if err != nil {
		return figure.Result{}, err
	}
	n := e.Samples / 2
	subject := func(ctx context.Context, p *client.Producer) (float64, error) {
		took := make([]time.Duration, n)
		record := batch.Record{Value: physical.Noise(e.RecordBytes)}
		for i := range took {
			start := time.Now()
			if _, err := p.Append(ctx, record).Wait(ctx); err != nil {
				return 0, err
			}
			took[i] = time.Since(start)
		}
		return figure.Millis(figure.Quantile(took, 0.5)), nil
	}
	baseline := func(ctx context.Context) (float64, error) {
		return e.with("loop", func(dir string) (float64, error) {
			size := e.RecordBytes + oneRecordFlight
			_, took, err := physical.Files{Dir: dir, FileBytes: size, Bytes: int64(n) * int64(size), AtOnce: 1}.Write(ctx)
			return figure.Millis(linger + 2*figure.Quantile(took, 0.5)), err
		})
	}
	pairs, err := b.withProducer(ctx, func(_ string, p *client.Producer) ([]figure.Pair, error) {
		return e.rounds(ctx, s.Name, baseline, func(ctx context.Context) (float64, error) { return subject(ctx, p) })
	})
	return finish(s, pairs, fmt.Sprintf("%d appends a round, direct to the star", n), errors.Join(err, b.close()))
}

// withProducer runs f with a producer on a new stream of class standard, direct at its star.
func (b *board) withProducer(ctx context.Context, f func(stream string, p *client.Producer) ([]figure.Pair, error)) ([]figure.Pair, error) {
	names, err := b.Create(ctx, "lone", 1, standard)
	if err != nil {
		return nil, err
	}
	p, err := b.clients[rig.Direct].Producer(ctx, names[0], client.ProducerOptions{Linger: linger})
	if err != nil {
		return nil, err
	}
	pairs, err := f(names[0], p)
	return pairs, errors.Join(err, p.Close(ctx))
}

// soonIdle makes streams vacant soon after their last producer has left.
func soonIdle(cfg *fleet.Config) { cfg.Star.IdleTimeout = 200 * time.Millisecond }

// openVacant opens streams that were led before and were released in good order, one after the other.
func openVacant(way rig.Way) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx, soonIdle)
		if err != nil {
			return figure.Result{}, err
		}
		n := max(e.Samples/10, 1)
		pairs, err := func() ([]figure.Pair, error) {
			cas, done, err := b.compareAndSet(ctx, n)
			if err != nil {
				return nil, err
			}
			defer done()
			names, err := b.Create(ctx, "vacant", n, standard)
			if err != nil {
				return nil, err
			}
			if _, err := b.openEach(ctx, way, names); err != nil { // each has a past from now on
				return nil, err
			}
			return e.rounds(ctx, s.Name, cas, func(ctx context.Context) (float64, error) {
				if err := b.AwaitVacant(ctx, names); err != nil {
					return 0, err
				}
				took, err := b.openEach(ctx, way, names)
				return figure.Millis(figure.Quantile(took, 0.5)), err
			})
		}()
		return finish(s, pairs, fmt.Sprintf("%d opens a round", n), errors.Join(err, b.close()))
	}
}

// openEach opens and closes a producer on each stream, and returns how long each open took.
func (b *board) openEach(ctx context.Context, way rig.Way, names []string) ([]time.Duration, error) {
	took := make([]time.Duration, len(names))
	for i, name := range names {
		start := time.Now()
		p, err := b.clients[way].Producer(ctx, name, client.ProducerOptions{})
		if err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
		if err := p.Close(ctx); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// compareAndSet measures n compare-and-sets, one after the other, in the Oxia that holds the heads.
func (b *board) compareAndSet(ctx context.Context, n int) (m measure, done func(), err error) {
	cfg := coord.DefaultConfig()
	cfg.Durable, cfg.Ephemeral, cfg.Identity = b.Infra.Oxia, b.Infra.Ephemeral, "bench"
	meta, err := coord.Dial(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	at := coord.Absent
	key := coord.HeadKey(ulid.Make().String()) // of no stream
	return func(ctx context.Context) (float64, error) {
		took := make([]time.Duration, n)
		for i := range took {
			start := time.Now()
			if at, err = meta.Rows().Put(ctx, key, &novav1.HeadRow{}, at); err != nil {
				return 0, err
			}
			took[i] = time.Since(start)
		}
		return figure.Millis(figure.Quantile(took, 0.5)), nil
	}, func() { _ = meta.Close() }, nil
}

// followLatency is the time from a record's acknowledgement at its producer to a following reader's getting
// it, with one record at a time. A record that is there before it is acknowledged counts as 0.
func followLatency(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
	b, err := e.board(ctx, nil)
	if err != nil {
		return figure.Result{}, err
	}
	pairs, err := func() ([]figure.Pair, error) {
		alone, err := physical.StartGRPC(1)
		if err != nil {
			return nil, err
		}
		baseline := func(ctx context.Context) (float64, error) {
			took, err := alone.RoundTrips(ctx, e.Samples)
			return figure.Millis(figure.Quantile(took, 0.99)), err
		}
		pairs, err := b.withProducer(ctx, func(stream string, p *client.Producer) ([]figure.Pair, error) {
			return e.rounds(ctx, s.Name, baseline, func(ctx context.Context) (float64, error) {
				late, err := b.follow(ctx, stream, p, e.Samples)
				return figure.Millis(figure.Quantile(late, 0.99)), err
			})
		})
		return pairs, errors.Join(err, alone.Stop())
	}()
	return finish(s, pairs, fmt.Sprintf("%d records a round, one at a time, direct to the star", e.Samples), errors.Join(err, b.close()))
}

// follow appends n records, one at a time, while a reader follows, and returns how late each was.
func (b *board) follow(ctx context.Context, stream string, p *client.Producer, n int) ([]time.Duration, error) {
	record := batch.Record{Value: physical.Noise(b.env.RecordBytes)}
	first, err := p.Append(ctx, record).Wait(ctx)
	if err != nil {
		return nil, err
	}
	r, err := b.clients[rig.Direct].Reader(ctx, stream, client.ReaderOptions{From: first, Follow: true})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := r.Next(ctx); err != nil { // it follows from here on
		return nil, err
	}
	acked := make(chan time.Time, n)
	failed := make(chan error, 1)
	go func() {
		defer close(acked)
		for range n {
			if _, err := p.Append(ctx, record).Wait(ctx); err != nil {
				failed <- err
				return
			}
			acked <- time.Now()
		}
		failed <- nil
	}()
	late := make([]time.Duration, 0, n)
	var rerr error
	for range n {
		if _, rerr = r.Next(ctx); rerr != nil {
			break
		}
		got := time.Now()
		at, ok := <-acked
		if !ok {
			break
		}
		late = append(late, max(got.Sub(at), 0))
	}
	for range acked { // the appends end before this does
	}
	return late, errors.Join(rerr, <-failed)
}
