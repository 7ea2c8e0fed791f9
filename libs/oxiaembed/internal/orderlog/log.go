package orderlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server/wal"
)

var (
	// ErrDamaged means that entries which were durable can no longer be read.
	ErrDamaged = errors.New("write-ahead log is damaged")
	// ErrBehind means that the store has entries which a synced log must have, and has not.
	ErrBehind = errors.New("write-ahead log ends before the store")
	// ErrGap means that an offset was handed out and its entry never came.
	ErrGap = errors.New("an offset was never appended")
	// ErrTruncated answers entries that were waiting when the log was truncated under them.
	ErrTruncated = errors.New("write-ahead log was truncated before the entry was written")

	errClosed = constant.ErrAlreadyClosed
)

// Options say how a Log behaves. Dir and Applied have no default.
type Options struct {
	Dir string
	// Sync makes every entry durable before it is answered.
	Sync bool
	// Applied is the last offset the store holds durably, -1 for none: entries up to it are not needed any more.
	Applied int64
	// SegmentBytes is the size of one file; 16 MiB when zero.
	SegmentBytes int64
	// GapTimeout is how long entries wait for a missing neighbour before the log fails; 10 s when zero.
	GapTimeout time.Duration
	// OnFail, when set, is told once why the log failed. It runs on the committer and must not call the log.
	OnFail func(error)
	// OnRoll, when set, is told that a new segment was begun. Same rule.
	OnRoll func()
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.GapTimeout == 0 {
		o.GapTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log is a write-ahead log for one shard. It is safe for concurrent use.
type Log struct {
	opts Options

	mu      sync.Mutex // the order of arrival
	queue   *queue
	failed  error
	closing bool
	busy    time.Time // since when the committer has been at its current batch; zero when idle

	wake  chan struct{}
	work  chan func()
	ended chan struct{}

	files    sync.RWMutex // the segments; only the committer changes them
	segments []*segment
	first    atomic.Int64
	last     atomic.Int64
	synced   int64 // the committer's own
	flush    func(*os.File) error
	closeErr error // set before ended closes
}

var _ wal.Wal = (*Log)(nil)

// Open recovers the log in o.Dir, creating the folder when there is none, and starts its committer.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the write-ahead log's folder: %w", err)
	}
	segments, err := recoverSegments(o)
	if err != nil {
		return nil, fmt.Errorf("recover the write-ahead log in %s: %w", o.Dir, err)
	}
	l := &Log{
		opts:     o,
		segments: segments,
		wake:     make(chan struct{}, 1),
		work:     make(chan func()),
		ended:    make(chan struct{}),
		synced:   -1,
		flush:    flush,
	}
	l.publishBounds()
	// What a killed process wrote may be in the page cache only; from here on new records call it durable.
	if err := l.syncCurrent(); err != nil {
		return nil, errors.Join(err, closeAll(segments))
	}
	l.queue = newQueue(l.last.Load() + 1)
	go l.run()
	return l, nil
}

// AppendAndSync queues e and returns; callback is told when e and all entries before it are on disk, or why
// they are not. An error that is known at once is told before AppendAndSync returns.
func (l *Log) AppendAndSync(e *proto.LogEntry, callback func(error)) {
	payload, err := e.MarshalVT()
	if err == nil && len(payload) > maxPayloadBytes {
		err = fmt.Errorf("entry of %d bytes is above the bound of %d", len(payload), maxPayloadBytes)
	}
	if err != nil {
		// The offset is lost, and with it the order of everything behind: the gap will be noticed.
		callback(fmt.Errorf("encode entry %d: %w", e.Offset, err))
		return
	}
	if err := l.enqueue(entry{offset: e.Offset, payload: payload, done: callback}); err != nil {
		callback(fmt.Errorf("append entry %d: %w", e.Offset, err))
	}
}

func (l *Log) enqueue(e entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil:
		return l.failed
	case l.closing:
		return errClosed
	}
	if err := l.queue.push(e); err != nil {
		return fmt.Errorf("%w: %w, the next is %d", wal.ErrInvalidNextOffset, err, l.queue.next)
	}
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
	return nil
}

// Append is AppendAndSync, waited for.
func (l *Log) Append(e *proto.LogEntry) error {
	answer := make(chan error, 1)
	l.AppendAndSync(e, func(err error) { answer <- err })
	return <-answer
}

// AppendAsync does more than Oxia asks of it: the entry is visible when it returns.
func (l *Log) AppendAsync(e *proto.LogEntry) error { return l.Append(e) }

// Err is the failure that ended the log's service; nil while it serves.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Busy is how long the committer has been at its current batch: writing, syncing, or in a callback.
func (l *Log) Busy() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy.IsZero() {
		return 0
	}
	return time.Since(l.busy)
}

// Sync makes every answered entry durable, also in a log that does not sync by itself.
func (l *Log) Sync(ctx context.Context) error { return l.do(ctx, l.syncCurrent) }

// TruncateLog removes the entries above lastSafe and returns the log's last offset. Entries that wait for
// their turn are answered with ErrTruncated: their offsets are to be given out again.
func (l *Log) TruncateLog(lastSafe int64) (int64, error) {
	err := l.do(context.Background(), func() error { return l.truncate(lastSafe) })
	return l.LastOffset(), err
}

// Clear removes every entry; the next append decides where the log begins.
func (l *Log) Clear() error {
	return l.do(context.Background(), func() error { return l.clear(anyOffset) })
}

// Trim removes the segments that hold nothing above upTo. It never removes the last entry: the leader takes
// its next offset from it.
func (l *Log) Trim(upTo int64) error {
	return l.do(context.Background(), func() error { return l.trim(upTo) })
}

// Delete closes the log and removes its folder.
func (l *Log) Delete() error { return errors.Join(l.Close(), os.RemoveAll(l.opts.Dir)) }

// LastOffset is the last answered entry's offset, -1 when there is none.
func (l *Log) LastOffset() int64 { return l.last.Load() }

// FirstOffset is the first entry's offset, -1 when there is none.
func (l *Log) FirstOffset() int64 { return l.first.Load() }

// Segments is the number of files the log consists of.
func (l *Log) Segments() int {
	l.files.RLock()
	defer l.files.RUnlock()
	return len(l.segments)
}

// Close writes what is queued in order, answers the rest, syncs and waits for the committer to end. No
// callback runs after it has returned.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-l.ended
	return l.closeErr
}
