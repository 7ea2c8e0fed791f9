package rig

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"nova.internal/bench/physical"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/client"
)

// Load is as much as the producers can get through: each stream has a producer that appends records
// until its buffer is full, and goes on when there is room.
type Load struct {
	RecordBytes int
	Bytes       int64         // of values, over all streams
	For         time.Duration // ends it before that; 0: no bound
}

// bufferAll bounds what all producers together hold unanswered, and bufferEach what one of them does:
// the SDK's default for a lone one.
const (
	bufferAll  = 128 << 20
	bufferEach = 16 << 20
)

// chunk is how many records a stream takes on before it looks what is left.
const chunk = 16

// openAtOnce is how many opens are under way at once.
const openAtOnce = 64

// Producers are open producers, one a stream.
type Producers []*client.Producer

// Open opens a producer on each stream.
func Open(ctx context.Context, c *client.Client, streams []string, opts client.ProducerOptions) (Producers, error) {
	producers := make(Producers, len(streams))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(openAtOnce)
	for i, name := range streams {
		g.Go(func() error {
			p, err := c.Producer(gctx, name, opts)
			if err != nil {
				return err
			}
			producers[i] = p
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, producers.Close(ctx))
	}
	return producers, nil
}

// Close flushes and closes the producers.
func (p Producers) Close(ctx context.Context) error {
	return p.each(func(i int) error {
		if p[i] == nil {
			return nil
		}
		return p[i].Close(ctx)
	})
}

// each does something with every producer, many at once, and returns what went wrong.
func (p Producers) each(do func(i int) error) error {
	errs := make([]error, len(p))
	var g errgroup.Group
	g.SetLimit(4 * openAtOnce)
	for i := range p {
		g.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = g.Wait() // its functions return nothing
	return errors.Join(errs...)
}

// Run appends the load to the streams and returns what was acknowledged in what time, from the first
// Append to the last answer. Producers are opened before and closed after that.
func (l Load) Run(ctx context.Context, c *client.Client, streams []string) (physical.Moved, error) {
	producers, err := Open(ctx, c, streams, client.ProducerOptions{BufferBytes: min(bufferEach, bufferAll/len(streams))})
	if err != nil {
		return physical.Moved{}, err
	}
	moved, err := l.drive(ctx, producers)
	return moved, errors.Join(err, producers.Close(ctx))
}

func (l Load) drive(ctx context.Context, producers Producers) (physical.Moved, error) {
	record := batch.Record{Value: physical.Noise(l.RecordBytes)}
	records := l.Bytes / int64(l.RecordBytes)
	var left, done atomic.Int64
	left.Store(records)
	began := time.Now()
	late := func() bool { return l.For > 0 && time.Since(began) >= l.For }
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range producers {
		g.Go(func() error {
			appended := int64(0)
			for ctx.Err() == nil && !late() {
				n := min(chunk, left.Add(-chunk)+chunk)
				if n <= 0 {
					break
				}
				for range n {
					p.Append(ctx, record) // a failure is the producer's, and Flush tells it
				}
				appended += n
			}
			if err := p.Flush(ctx); err != nil {
				return fmt.Errorf("append a load: %w", err)
			}
			done.Add(appended)
			return nil
		})
	}
	err := g.Wait()
	return physical.Moved{Bytes: done.Load() * int64(l.RecordBytes), Elapsed: time.Since(began)}, err
}
