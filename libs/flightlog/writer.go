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

// WriterConfig is what a chain's writer is made of. Callbacks come one at a time and may not call the
// writer's Close.
type WriterConfig struct {
	Chain       string
	Copies      *Copies
	Linger      time.Duration // how long a flight stays open while others are in the pipeline
	FlightBytes int           // at which a flight closes
	Depth       int           // flights in the pipeline at once
	OnCommit    func(Committed)
	OnDeposed   func(error)
	Log         *slog.Logger
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

	mu         sync.Mutex
	open       *openFlight
	timer      *time.Timer
	pipeline   []*sealedFlight // in slot order; the first is the oldest undecided one
	next       uint64          // slot of the next flight
	committed  uint64          // slots below it are committed
	waiting    int             // bytes added and not committed
	stragglers int             // puts that go on after their flight was committed
	err        error           // why nothing is taken any more
	changed    chan struct{}   // closed and replaced when room or state changes

	commits chan *sealedFlight
}

// openFlight takes batches. Sealing it makes it immutable.
type openFlight struct {
	batches []Batch
	bytes   int
	since   time.Time
}

// sealedFlight has its slot and its bytes.
type sealedFlight struct {
	slot    uint64
	nonce   [16]byte
	prefix  []byte
	batches []Batch
	refs    []BatchRef
	bytes   int
	since   time.Time
	votes   int
	lost    int
	decided bool
}

func (f *sealedFlight) parts() [][]byte {
	parts := make([][]byte, 0, len(f.batches)+1)
	parts = append(parts, f.prefix)
	for _, b := range f.batches {
		parts = append(parts, b.Records)
	}
	return parts
}

// NewWriter returns the writer of a chain that has no slot yet.
func NewWriter(cfg WriterConfig) *Writer {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Writer{cfg: cfg, changed: make(chan struct{}), commits: make(chan *sealedFlight, cfg.Depth)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.work.Go(w.commitLoop)
	return w
}

// Add puts a batch into the open flight. It blocks while the pipeline is full and as much again waits in
// the open flight, so that producers are held back by their sockets. On an error the batch was not taken.
func (w *Writer) Add(ctx context.Context, b Batch) error {
	w.mu.Lock()
	for w.err == nil && w.open != nil && (w.open.bytes >= w.cfg.FlightBytes || len(w.open.batches) >= MaxBatches) {
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.open == nil {
		w.open = &openFlight{since: time.Now()}
		if len(w.pipeline) > 0 {
			w.timer = time.AfterFunc(w.cfg.Linger, w.lingered)
		}
	}
	w.open.batches = append(w.open.batches, b)
	w.open.bytes += len(b.Records)
	w.waiting += len(b.Records)
	if len(w.pipeline) == 0 || w.open.bytes >= w.cfg.FlightBytes {
		w.seal()
	}
	return nil
}

func (w *Writer) lingered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil && time.Since(w.open.since) >= w.cfg.Linger {
		w.seal()
	}
}

// seal closes the open flight and puts it, unless the pipeline is full; then the next commit does.
// mu is held.
func (w *Writer) seal() {
	if w.open == nil || w.err != nil || len(w.pipeline) >= w.cfg.Depth {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	f := &sealedFlight{slot: w.next, batches: w.open.batches, bytes: w.open.bytes, since: time.Now()}
	_, _ = rand.Read(f.nonce[:]) // never fails
	var err error
	f.prefix, f.refs, err = encodePrefix(Header{Chain: w.cfg.Chain, Class: w.cfg.Copies.Class, Slot: f.slot, Committed: w.committed, Nonce: f.nonce}, f.batches)
	w.open = nil
	if err != nil { // a batch that cannot be laid out: the chain would have a hole
		w.fail(fmt.Errorf("chain %s: %w", w.cfg.Chain, err))
		return
	}
	w.next++
	w.pipeline = append(w.pipeline, f)
	w.put(f)
	w.signal()
}

// decide counts one copy's answer about a flight. mu is held.
func (w *Writer) decide(f *sealedFlight, won bool) {
	if won {
		f.votes++
	} else {
		f.lost++
	}
	quorum := w.cfg.Copies.Quorum()
	switch {
	case f.decided || w.err != nil:
	case f.votes >= quorum:
		f.decided = true
		w.advance()
	case f.lost > len(w.cfg.Copies.List)-quorum:
		w.fail(fmt.Errorf("%w: slot %d of %s", ErrDeposed, f.slot, w.cfg.Chain))
	}
}

// advance commits what is decided from the front of the pipeline, in slot order. mu is held.
func (w *Writer) advance() {
	for len(w.pipeline) > 0 && w.pipeline[0].decided {
		f := w.pipeline[0]
		w.pipeline[0] = nil
		w.pipeline = w.pipeline[1:]
		w.committed = f.slot + 1
		w.waiting -= f.bytes
		w.commits <- f // never blocks for long: the pipeline and the channel have the same depth
	}
	if w.open != nil && (len(w.pipeline) == 0 || w.open.bytes >= w.cfg.FlightBytes || time.Since(w.open.since) >= w.cfg.Linger) {
		w.seal()
	}
	w.signal()
}

// fail ends the writer: nothing more is taken, committed or answered. mu is held.
func (w *Writer) fail(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	w.cancel()
	w.signal()
	if w.cfg.OnDeposed != nil && !errors.Is(err, ErrClosed) {
		w.work.Go(func() { w.cfg.OnDeposed(err) })
	}
}

// signal wakes whoever waits for a change. mu is held.
func (w *Writer) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// commitLoop tells of commits, one at a time and in slot order.
func (w *Writer) commitLoop() {
	for {
		select {
		case f := <-w.commits:
			c := Committed{Slot: f.slot, At: time.Now(), Batches: f.refs, Records: make([][]byte, len(f.batches))}
			for i, b := range f.batches {
				c.Records[i] = b.Records
			}
			w.cfg.OnCommit(c)
		case <-w.ctx.Done():
			return
		}
	}
}

// State is where a writer stands.
type State struct {
	Next         uint64        // slot of the next flight
	Committed    uint64        // slots below it are committed
	WaitingBytes int           // added and not committed
	OldestAge    time.Duration // of the oldest undecided flight, 0 when there is none
	Err          error         // why nothing is taken any more
}

// State returns where the writer stands now.
func (w *Writer) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{Next: w.next, Committed: w.committed, WaitingBytes: w.waiting, Err: w.err}
	if len(w.pipeline) > 0 {
		s.OldestAge = time.Since(w.pipeline[0].since)
	}
	return s
}

// Close takes nothing more, waits until all that was added is committed and on every copy, and ends the
// writer. When ctx ends first, what is left is abandoned.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	for w.err == nil && (w.open != nil || len(w.pipeline) > 0 || w.stragglers > 0 || len(w.commits) > 0) && ctx.Err() == nil {
		w.seal()
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(closePoll):
		}
		w.mu.Lock()
	}
	err := w.err
	left := w.open != nil || len(w.pipeline) > 0
	w.fail(ErrClosed)
	w.mu.Unlock()
	w.work.Wait()
	switch {
	case err != nil:
		return err
	case left:
		return fmt.Errorf("close chain %s: %w", w.cfg.Chain, ctx.Err())
	}
	return nil
}

// closePoll is how often Close looks whether the last commit was told.
const closePoll = 5 * time.Millisecond

// Abort ends the writer at once: what is undecided stays so.
func (w *Writer) Abort() {
	w.mu.Lock()
	w.fail(ErrClosed)
	w.mu.Unlock()
}

// Wait returns when an aborted writer's last goroutine has ended.
func (w *Writer) Wait() { w.work.Wait() }
