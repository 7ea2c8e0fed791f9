package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
)

// limits are what the server takes, as of the newest open.
type limits struct{ recordBytes, batchBytes int }

// Producer appends records to one stream. It is safe for concurrent use; the records of concurrent
// Appends have no order among each other, those of one goroutine keep theirs.
//
//	Append ─▶ building ─▶ window ─▶ sender ─▶ Produce call
//	             └ one batch   ▲                   │
//	Pending ◀── resolve ── ack ┴───── receiver ◀───┘
//
// Two goroutines live as long as the producer: run, which opens handle after handle and sends, and
// watch, which knows the deadlines. Each handle has a receiver that run waits for.
type Producer struct {
	client *Client
	stream string
	opts   ProducerOptions
	claim  string // of a fenced stream; kept over reopens

	cancel context.CancelCauseFunc
	owned  sync.WaitGroup
	ready  chan struct{} // closed at the first successful open
	ended  chan struct{} // closed when run has returned
	wake   chan struct{} // capacity 1: there may be something to send
	due    chan struct{} // capacity 1: there may be a deadline

	mu       sync.Mutex
	id       string // "" with AtLeastOnce
	w        window
	building building
	buffered int           // bytes appended and not answered
	changed  chan struct{} // closed and replaced when buffered shrinks, or err is set
	limits   limits
	reopen   bool // it has been open before
	closing  bool
	err      error     // the first failure; nothing is accepted after it
	last     error     // why the newest handle or open ended
	heard    time.Time // when the present handle last said something
	disorder uint64    // first unanswered batch when a refusal for order was last healed by resending
	hang     func()    // ends the present handle, which is silent; nil without one
}

// Producer opens stream for appending. It returns when the stream is open at a leader, or with the
// refusal. ctx bounds the open only.
func (c *Client) Producer(ctx context.Context, stream string, opts ProducerOptions) (*Producer, error) {
	if err := api.CheckStreamName(stream); err != nil {
		return nil, err
	}
	opts.defaults()
	p := &Producer{
		client: c, stream: stream, opts: opts, claim: newID(),
		ready: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1), due: make(chan struct{}, 1),
		changed: make(chan struct{}),
	}
	if !opts.AtLeastOnce {
		p.id = newID()
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.owned.Go(func() { defer close(p.ended); p.run(life) })
	p.owned.Go(func() { p.watch(life) })

	opening := time.NewTimer(opts.OpenTimeout)
	defer opening.Stop()
	var why error
	select {
	case <-p.ready:
		return p, nil
	case <-p.ended:
		why = p.failure()
	case <-ctx.Done():
		why = p.unopened(ctx.Err())
	case <-opening.C:
		why = p.unopened(fmt.Errorf("not open within %v", opts.OpenTimeout))
	}
	p.fail(why)
	p.owned.Wait()
	return nil, fmt.Errorf("open a producer on %s: %w", stream, why)
}

// unopened is why with what the newest try met.
func (p *Producer) unopened(why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		return why
	}
	return fmt.Errorf("%w; the last try: %w", why, p.last)
}

// Append takes records for delivery and returns their future. It blocks while the buffer is full, until
// ctx ends. The records of one Append lie densely and are stored together or not at all. Record bytes
// may be reused when it returns; a zero Time becomes now.
func (p *Producer) Append(ctx context.Context, records ...batch.Record) *Pending {
	pending, err := p.append(ctx, records)
	if err != nil {
		pending = &Pending{place: &place{done: make(chan struct{})}}
		pending.place.resolve(0, fmt.Errorf("append to %s: %w", p.stream, err))
	}
	return pending
}

func (p *Producer) append(ctx context.Context, records []batch.Record) (*Pending, error) {
	if len(records) == 0 || len(records) > batch.MaxCount {
		return nil, &api.FieldError{Field: "records", Why: fmt.Sprintf("one Append takes 1 to %d records", batch.MaxCount)}
	}
	now := time.Now()
	size, largest := encodedBytes(records, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if largest > p.limits.recordBytes {
		return nil, &batch.TooLargeError{RecordBytes: largest, MaxBytes: p.limits.recordBytes}
	}
	if size+1 > p.limits.batchBytes {
		return nil, &api.FieldError{Field: "records", Why: fmt.Sprintf("the records of one Append take %d bytes, a batch has at most %d: use several", size, p.limits.batchBytes)}
	}
	// A record that is larger than the whole buffer goes alone.
	for p.err == nil && !p.closing && p.buffered > 0 && p.buffered+size+1 > p.opts.BufferBytes {
		if err := p.waitChange(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case p.err != nil:
		return nil, fmt.Errorf("not sent, since an earlier batch failed: %w", p.err)
	case p.closing:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	b := &p.building
	if b.count > 0 && (len(b.records)+size > min(p.opts.MaxBatchBytes, p.limits.batchBytes) || int(b.count)+len(records) > batch.MaxCount) {
		p.w.add(b.seal())
	}
	first := b.count == 0
	if first {
		size++ // the format byte
	}
	pending := b.add(records, now)
	p.buffered += size
	if first {
		signal(p.wake)
		signal(p.due)
	} else if len(b.records) >= p.opts.MaxBatchBytes {
		signal(p.wake)
	}
	return pending, nil
}

// waitChange waits, with mu released, for an answer or a failure.
func (p *Producer) waitChange(ctx context.Context) error {
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Flush waits until everything appended before it has its outcome, and returns the producer's failure
// if there is one.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	if p.building.count > 0 {
		p.w.add(p.building.seal())
		signal(p.wake)
	}
	var outstanding []*place
	for b := range p.w.unresolved {
		outstanding = append(outstanding, b.place)
	}
	p.mu.Unlock()
	for _, place := range outstanding {
		select {
		case <-place.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return p.failure()
}

// Close flushes and leaves the stream. When ctx ends first, what is unanswered fails and Close returns
// the failure. It returns when all goroutines of the producer have ended; a second Close is harmless.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	if p.building.count > 0 {
		p.w.add(p.building.seal())
	}
	p.announce()
	if p.idle() && p.hang == nil {
		p.cancel(errLeft) // no handle is open and none is needed
	}
	p.mu.Unlock()
	signal(p.wake)
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.abandon(fmt.Errorf("close the producer on %s: %w", p.stream, ctx.Err()))
	}
	p.cancel(ErrClosed)
	p.owned.Wait()
	if err := p.failure(); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// abandon ends the producer without a goodbye: it fails only where something is still unanswered.
func (p *Producer) abandon(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle() {
		p.cancel(errLeft)
		return
	}
	p.failLocked(why)
}

func (p *Producer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// announce wakes everybody who waits for a change. mu is held.
func (p *Producer) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// signal wakes the owner of a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
