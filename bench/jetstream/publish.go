package jetstream

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"nova.internal/bench/physical"
)

const (
	maxPending   = 4096 // records that the publisher has unanswered at most
	createAtOnce = 8
	lookEach     = 64 // records, between two looks at the clock
)

// Create makes n streams, with as many replicas as there are servers, and returns their subjects.
func (s *Servers) Create(ctx context.Context, prefix string, n int) ([]string, error) {
	subjects := make([]string, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createAtOnce)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("%s-%d", prefix, i)
		g.Go(func() error {
			_, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: subjects[i], Subjects: []string{subjects[i]}, Storage: jetstream.FileStorage, Replicas: s.cfg.Nodes,
			})
			return err
		})
	}
	return subjects, g.Wait()
}

// Load is what is published: records, to all subjects in turn.
type Load struct {
	RecordBytes int
	Bytes       int64
	For         time.Duration // ends it before that
}

// Run publishes the load and waits for all answers. An answer that is an error fails it.
func (l Load) Run(ctx context.Context, s *Servers, subjects []string) (physical.Moved, error) {
	var failed atomic.Pointer[error]
	js, err := jetstream.New(s.nc, jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithDefaultTimeout(startWithin),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { failed.CompareAndSwap(nil, &err) }))
	if err != nil {
		return physical.Moved{}, err
	}
	record := physical.Noise(l.RecordBytes)
	began := time.Now()
	sent := int64(0)
	for ; sent < l.Bytes/int64(l.RecordBytes); sent++ {
		if sent%lookEach == 0 && (time.Since(began) >= l.For || ctx.Err() != nil) {
			break
		}
		if _, err := js.PublishAsync(subjects[sent%int64(len(subjects))], record, jetstream.WithStallWait(startWithin)); err != nil {
			return physical.Moved{}, fmt.Errorf("publish: %w", err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return physical.Moved{}, fmt.Errorf("records are not acknowledged: %w", context.Cause(ctx))
	}
	elapsed := time.Since(began)
	if err := failed.Load(); err != nil {
		return physical.Moved{}, fmt.Errorf("publish: %w", *err)
	}
	return physical.Moved{Bytes: sent * int64(l.RecordBytes), Elapsed: elapsed}, ctx.Err()
}
