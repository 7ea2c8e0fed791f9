package flightlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

var (
	// ErrDeposed: a slot of the chain can no longer reach a copy quorum. The chain is lost to this writer.
	ErrDeposed = errors.New("deposed: a slot of the chain is taken")
	// ErrClosed: the writer takes nothing more.
	ErrClosed = errors.New("the chain's writer is closed")
)

// WriterConfig is what a chain's writer is made of.
//
// OnCommit, OnDeposed and OnMissed are called one at a time, from one goroutine, and may call everything
// of the writer but Close and Wait. While they take their time, flights wait and then Add does.
type WriterConfig struct {
	Chain       string        // by ChainName
	Copies      *Copies       // an odd number
	Linger      time.Duration // how long a flight stays open while others are in the pipeline
	FlightBytes int           // at which a flight closes; 0: 2 MiB
	Depth       int           // flights in the pipeline at once; 0: 4

	// OnCommit hears of every flight, in slot order without gaps, once it and all earlier ones are on a
	// copy quorum. It is never called after OnDeposed, or after Abort has returned and what it was then
	// doing has ended.
	OnCommit func(Committed)
	// OnDeposed hears once why the writer can go on no more. It is not called after Close or Abort.
	OnDeposed func(error)
	// OnMissed hears of a copy that a committed flight did not reach: something else stands in its slot
	// there, or the copy was away for too long. The flight stands on a quorum all the same. May be nil.
	OnMissed func(copy string, slot uint64, err error)
	// Meter is told of each put and each commit. May be nil.
	Meter Meter
	Log   *slog.Logger
}

// Meter is what measures a writer. Its methods are called concurrently and must not block.
type Meter interface {
	// Put is one try to put a flight on one copy. ErrExists is an answer, not a fault.
	Put(copy string, bytes int, took time.Duration, err error)
	// Commit is one flight, from its sealing to its quorum.
	Commit(batches, bytes int, took time.Duration)
}

// Committed is a flight that stands, with every earlier one, on a copy quorum.
type Committed struct {
	Slot    uint64
	At      time.Time
	Batches []BatchRef
	Records [][]byte // of each batch
}

// Writer writes one chain. It is safe for concurrent use; the order of Add is the order in the chain.
//
// A flight that is open takes batches; it is sealed, which gives it its slot, when the pipeline is idle,
// when it is full, or when it has lingered; it is put on every copy at once; and it is committed, in slot
// order, when a quorum holds it. At most Depth flights are between sealed and committed.
type Writer struct {
	cfg    WriterConfig
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	open      *openFlight
	timer     *time.Timer
	pipeline  []*boarding // sealed, in slot order; the first is the oldest undecided one
	untold    []*boarding // committed, in slot order; OnCommit has yet to hear of them
	missed    []miss      // OnMissed has yet to hear of them
	lanes     []*lane     // one for each copy
	next      uint64      // slot of the next flight
	committed uint64      // slots below it are committed
	waiting   int         // bytes added and not told as committed
	closing   bool
	err       error         // why nothing is taken any more
	changed   chan struct{} // closed and replaced when room or state changes
	tell      chan struct{} // holds a token when the teller has something to look at
}

// boarding is a sealed flight on its way to the copies.
type boarding struct {
	*sealedFlight
	votes, lost int
	decided     bool // on a quorum
	at          time.Time
}

type miss struct {
	copy string
	slot uint64
	err  error
}

// NewWriter returns the writer of a chain that has no slot yet. It must be closed or aborted.
func NewWriter(cfg WriterConfig) *Writer {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.OnCommit == nil {
		cfg.OnCommit = func(Committed) {}
	}
	if cfg.FlightBytes <= 0 {
		cfg.FlightBytes = 2 << 20
	}
	if cfg.Depth <= 0 {
		cfg.Depth = 4
	}
	w := &Writer{cfg: cfg, changed: make(chan struct{}), tell: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for _, c := range cfg.Copies.List {
		w.lanes = append(w.lanes, &lane{writer: w, copy: c})
	}
	w.work.Go(w.tellLoop)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := cfg.Copies.Check(); err != nil {
		w.fail(err)
	} else if err := checkKey(SlotKey(cfg.Chain, 0)); err != nil || len(cfg.Chain) > maxChainBytes {
		w.fail(fmt.Errorf("chain %q cannot be written: its name is no chain's", cfg.Chain))
	}
	return w
}

// Add puts a batch into the open flight. It blocks while the pipeline is full and as much again waits in
// the open flight, so that producers are held back by their sockets. On an error the batch was not taken;
// ErrBadBatch means that this batch never will be.
func (w *Writer) Add(ctx context.Context, b Batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.refuses() == nil && w.open != nil && w.open.full(w.cfg.FlightBytes) {
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	if err := w.refuses(); err != nil {
		return err
	}
	o := w.open
	if o == nil {
		o = &openFlight{since: time.Now()}
	}
	before := o.bytes
	if err := o.add(b); err != nil {
		return err
	}
	w.waiting += o.bytes - before
	if w.open == nil {
		w.open = o
		w.timer = time.AfterFunc(w.cfg.Linger, w.lingered)
	}
	w.sealDue()
	return nil
}

// refuses says why nothing more is taken. mu is held.
func (w *Writer) refuses() error {
	if w.err == nil && w.closing {
		return ErrClosed
	}
	return w.err
}

// await lets go of mu until something changed.
func (w *Writer) await(ctx context.Context) error {
	changed := w.changed
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Writer) lingered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sealDue()
}

// sealDue closes the open flight and sends it off, if it is time and there is room. Who makes room calls
// it again. mu is held.
func (w *Writer) sealDue() {
	if w.open == nil || w.err != nil || len(w.pipeline) >= w.cfg.Depth || len(w.untold) >= w.cfg.Depth {
		return
	}
	if len(w.pipeline) > 0 && !w.closing && !w.open.full(w.cfg.FlightBytes) && time.Since(w.open.since) < w.cfg.Linger {
		return
	}
	w.timer.Stop()
	h := Header{Chain: w.cfg.Chain, Class: w.cfg.Copies.Class, Slot: w.next, Committed: w.committed}
	_, _ = rand.Read(h.Nonce[:]) // never fails
	f := &boarding{sealedFlight: w.open.seal(h, time.Now())}
	w.open = nil
	w.next++
	w.pipeline = append(w.pipeline, f)
	for _, l := range w.lanes {
		l.queue = append(l.queue, f)
		l.pump()
	}
	w.signal()
}

// count takes one copy's answer about a flight. mu is held.
func (w *Writer) count(f *boarding, won bool, why error) {
	if w.err != nil {
		return
	}
	if won {
		f.votes++
	} else {
		f.lost++
	}
	quorum := w.cfg.Copies.Quorum()
	switch {
	case f.decided:
	case f.votes >= quorum:
		f.decided = true
		w.advance()
	case f.lost > len(w.lanes)-quorum:
		w.fail(fmt.Errorf("%w: slot %d of %s: %w", ErrDeposed, f.Slot, w.cfg.Chain, why))
	}
}

// advance commits what is decided from the front of the pipeline. mu is held.
func (w *Writer) advance() {
	for len(w.pipeline) > 0 && w.pipeline[0].decided {
		f := w.pipeline[0]
		w.pipeline[0] = nil
		w.pipeline = w.pipeline[1:]
		f.at = time.Now()
		w.committed = f.Slot + 1
		w.untold = append(w.untold, f)
	}
	w.sealDue()
	w.signal()
}

// fail ends the writer: nothing more is taken, committed or answered. mu is held.
func (w *Writer) fail(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	w.cancel()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.signal()
}

// signal wakes the teller and whoever waits for a change. mu is held.
func (w *Writer) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
	select {
	case w.tell <- struct{}{}:
	default:
	}
}
