package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// ReaderOptions say what to read.
type ReaderOptions struct {
	From  uint64 // sequence of the first record wanted
	Last  bool   // begin at the newest record instead
	Limit uint64 // records; 0: no limit
	// Follow waits for new records at the end. Without it Next returns io.EOF behind the last record
	// that was acknowledged when the end was reached.
	Follow bool
	// GiveUp bounds how long a reader that cannot read keeps trying, and how long one that does not follow
	// waits for an answer before it asks again (30 s).
	GiveUp time.Duration
}

// Record is a record with its place in the stream.
type Record struct {
	Sequence uint64
	batch.Record
}

// Reader reads one stream. It is for one goroutine at a time, and has none of its own.
type Reader struct {
	client *Client
	stream string
	opts   ReaderOptions
	life   context.Context
	cancel context.CancelFunc

	cursor cursor
	call   *opened[heardCall] // nil: none is open
	ended  bool               // the end was reached; what is ready is the rest
	err    error              // sticky
	pace   *pace
	failed time.Time // since when nothing was heard; zero: all is well
}

// heardCall is a Read call with its first answer, nil when it ended without one.
type heardCall struct {
	novav1.Streams_ReadClient
	first *novav1.ReadResponse
}

// Reader begins to read stream. Nothing is asked before the first Next, except where Last needs to know
// the end. ctx bounds that question only; end the reader with Close.
func (c *Client) Reader(ctx context.Context, stream string, opts ReaderOptions) (*Reader, error) {
	if err := api.CheckStreamName(stream); err != nil {
		return nil, err
	}
	if opts.GiveUp <= 0 {
		opts.GiveUp = 30 * time.Second
	}
	if opts.Last {
		// An answer that knows the end makes reopening exact from the start. Without one the server
		// finds the newest record.
		if info, err := c.Describe(ctx, stream); err == nil && info.GetNextKnown() {
			opts.Last, opts.From = false, max(info.GetNext(), 1)-1
		} else if err != nil && fatal(err) {
			return nil, err
		}
	}
	r := &Reader{client: c, stream: stream, opts: opts, pace: newPace()}
	r.cursor = cursor{stream: stream, next: opts.From, last: opts.Last, limit: opts.Limit}
	r.life, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// Next returns the next record, io.EOF behind the last one wanted, or why the reader cannot go on. After
// ctx's end it may be called again; every other error is final.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for {
		if rec, ok := r.cursor.take(); ok {
			return rec, nil
		}
		switch {
		case r.err != nil:
			return Record{}, r.err
		case r.ended || r.cursor.done():
			r.stop(io.EOF)
			continue
		}
		if err := ctx.Err(); err != nil {
			return Record{}, err
		}
		if err := r.advance(ctx); err != nil {
			if ctx.Err() != nil && r.err == nil {
				return Record{}, ctx.Err()
			}
			r.stop(err)
		}
	}
}

// Close ends the reader. It must not run beside Next.
func (r *Reader) Close() error {
	r.stop(ErrClosed)
	r.cancel()
	return nil
}

func (r *Reader) stop(err error) {
	r.hangUp()
	if r.err == nil {
		r.err = err
	}
}

func (r *Reader) hangUp() {
	if r.call != nil {
		r.call.cancel()
		r.call = nil
	}
}

// advance takes one answer, opening a call first where none is open. An error is final, or ctx's.
func (r *Reader) advance(ctx context.Context) error {
	m, err := r.receive(ctx)
	switch {
	case err == nil:
		r.failed = time.Time{}
		r.pace.progress()
		return r.cursor.accept(m)
	case errors.Is(err, io.EOF) && r.cursor.atEnd && !r.opts.Follow:
		r.ended = true
		return nil
	case errors.Is(err, io.EOF):
		err = &api.UnavailableError{Why: "the read was ended before its end"}
	}
	if r.call != nil {
		r.client.forget(r.stream, r.call.at.address)
	}
	r.hangUp()
	r.cursor.reopened()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fatal(err) {
		return fmt.Errorf("read %s: %w", r.stream, err)
	}
	now := time.Now()
	if r.failed.IsZero() {
		r.failed = now
	}
	if left := r.opts.GiveUp - now.Sub(r.failed); left <= 0 {
		return fmt.Errorf("read %s: gave up after %v without an answer: %w", r.stream, r.opts.GiveUp, err)
	}
	r.client.log.DebugContext(ctx, "read ended; opening again", "stream", r.stream, "next", r.cursor.next, "err", err)
	r.pace.wait(ctx, err)
	return ctx.Err()
}

// receive gets the next answer. When ctx ends meanwhile the call is given up; the next one begins at
// the same sequence.
func (r *Reader) receive(ctx context.Context) (*novav1.ReadResponse, error) {
	if r.call == nil {
		call, m, err := r.open(ctx)
		if err != nil {
			return nil, err
		}
		r.call = call
		return m, nil
	}
	defer context.AfterFunc(ctx, r.call.cancel)()
	inTime := func() bool { return true }
	if !r.opts.Follow { // a follower may wait for ever; one that expects an end must not
		inTime = time.AfterFunc(r.opts.GiveUp, r.call.cancel).Stop
	}
	m, err := r.call.call.Recv()
	switch {
	case !inTime():
		return nil, errAnswerLate
	case err != nil && !errors.Is(err, io.EOF):
		return nil, api.FromError(err)
	}
	return m, err
}

// open opens a Read call at whoever can serve it and returns it with its first answer. A follower's first
// answer may be long in coming, so only a reader that expects an end is impatient.
func (r *Reader) open(ctx context.Context) (*opened[heardCall], *novav1.ReadResponse, error) {
	life, cancel := context.WithCancel(r.life)
	stop := context.AfterFunc(ctx, cancel)
	c, patience := r.client, r.opts.GiveUp
	if r.opts.Follow {
		patience = 0
	}
	way := newRoute(c.cfg.Direct, c.start(life, r.stream), "", "")
	call, err := follow(life, c, r.stream, way, patience, r.listen)
	if err != nil || !stop() {
		cancel()
		return nil, nil, errors.Join(err, ctx.Err())
	}
	c.remember(r.stream, call.at)
	end := call.cancel
	call.cancel = func() { end(); cancel() }
	if call.call.first == nil {
		call.cancel()
		return nil, nil, io.EOF
	}
	return &call, call.call.first, nil
}

// listen asks one star and waits for its first answer.
func (r *Reader) listen(ctx context.Context, streams novav1.StreamsClient, way *route) (heardCall, error) {
	call, err := streams.Read(ctx, &novav1.ReadRequest{
		Name: r.stream, From: r.cursor.next, Last: r.cursor.last, Limit: r.cursor.limit, Follow: r.opts.Follow,
		RedirectedBy: way.from, Hops: way.hops, Hint: way.hint,
	})
	if err != nil {
		return heardCall{}, err
	}
	m, err := call.Recv()
	if errors.Is(err, io.EOF) {
		return heardCall{Streams_ReadClient: call}, nil
	}
	return heardCall{Streams_ReadClient: call, first: m}, err
}
