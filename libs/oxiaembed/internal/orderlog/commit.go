package orderlog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// batchBytes bounds what one write and one sync carry.
const batchBytes = 4 << 20

// run is the committer: it takes what is in order, writes it, answers it, and carries out file work between
// two batches.
func (l *Log) run() {
	defer close(l.ended)
	var gap *time.Timer // runs while entries wait for one that has not come
	for {
		l.mu.Lock()
		var batch []entry
		if l.failed == nil {
			batch = l.queue.pop(batchBytes)
		}
		missing, next, closing := l.queue.gap(), l.queue.next, l.closing
		l.mu.Unlock()

		if len(batch) > 0 {
			if gap != nil {
				gap.Stop()
				gap = nil
			}
			l.commit(batch)
			select { // file work must not starve under load
			case f := <-l.work:
				f()
			default:
			}
			continue
		}
		if closing {
			l.shut()
			return
		}
		var expired <-chan time.Time
		if missing {
			if gap == nil {
				gap = time.NewTimer(l.opts.GapTimeout)
			}
			expired = gap.C
		}
		select {
		case <-l.wake:
		case f := <-l.work:
			f()
		case <-expired:
			gap = nil
			l.fail(fmt.Errorf("%w: %d, waited for %v", ErrGap, next, l.opts.GapTimeout))
		}
	}
}

// commit writes a batch, makes it durable when asked, and answers it in order.
func (l *Log) commit(batch []entry) {
	l.setBusy(time.Now())
	defer l.setBusy(time.Time{})
	err := l.write(batch)
	if err == nil && l.opts.Sync {
		err = l.syncCurrent()
	}
	if err != nil {
		l.fail(fmt.Errorf("append to the write-ahead log: %w", err), batch...)
		return
	}
	l.publishBounds()
	for _, e := range batch {
		e.done(nil)
	}
}

// write puts the batch behind the last record, beginning new segments as they fill.
func (l *Log) write(batch []entry) error {
	var buf []byte
	var at []int64 // positions of buf's records
	put := func() error {
		if len(buf) == 0 {
			return nil
		}
		s := l.segments[len(l.segments)-1]
		if _, err := s.file.WriteAt(buf, s.end); err != nil {
			return fmt.Errorf("write %s: %w", s.path, err)
		}
		l.files.Lock()
		s.positions = append(s.positions, at...)
		s.end += int64(len(buf))
		l.files.Unlock()
		buf, at = buf[:0], at[:0]
		return nil
	}
	for _, e := range batch {
		r := record{offset: e.offset, synced: l.synced, payload: e.payload}
		if !l.fits(int64(len(buf)), r.size()) {
			if err := put(); err != nil {
				return err
			}
			if err := l.roll(e.offset); err != nil {
				return err
			}
		}
		at = append(at, l.segments[len(l.segments)-1].end+int64(len(buf)))
		buf = r.appendTo(buf)
	}
	return put()
}

// fits tells whether a record of size bytes goes into the current segment behind pending bytes. A record
// larger than a segment gets one of its own.
func (l *Log) fits(pending, size int64) bool {
	if len(l.segments) == 0 {
		return false
	}
	s := l.segments[len(l.segments)-1]
	empty := len(s.positions) == 0 && pending == 0
	return empty || s.end+pending+size <= l.opts.SegmentBytes
}

// roll makes the current segment durable and begins the next one. A segment that is not the last one is
// therefore never torn, whatever Sync says: recovery relies on it.
func (l *Log) roll(base int64) error {
	if err := l.syncCurrent(); err != nil {
		return err
	}
	s, err := createSegment(l.opts.Dir, base, l.opts.SegmentBytes)
	if err != nil {
		return fmt.Errorf("begin a segment: %w", err)
	}
	l.files.Lock()
	l.segments = append(l.segments, s)
	l.files.Unlock()
	if l.opts.OnRoll != nil {
		l.opts.OnRoll()
	}
	return nil
}

func (l *Log) syncCurrent() error {
	if len(l.segments) == 0 {
		return nil
	}
	s := l.segments[len(l.segments)-1]
	if err := l.flush(s.file); err != nil {
		return fmt.Errorf("sync %s: %w", s.path, err)
	}
	l.synced = s.last()
	return nil
}

// fail ends the log's service, once, and answers the batch at hand and everything that waits behind it. It
// returns the first failure.
func (l *Log) fail(err error, batch ...entry) error {
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = err
	}
	err = l.failed
	unanswered := append(batch, l.queue.reset(l.queue.next)...)
	l.mu.Unlock()
	if first {
		l.opts.Logger.Error("write-ahead log failed: no further write is accepted", "dir", l.opts.Dir, "error", err)
		if l.opts.OnFail != nil {
			l.opts.OnFail(err)
		}
	}
	for _, e := range unanswered {
		e.done(err)
	}
	return err
}

// shut answers what can no longer be written and closes the files.
func (l *Log) shut() {
	l.mu.Lock()
	waiting, failed := l.queue.reset(l.queue.next), l.failed
	l.mu.Unlock()
	for _, e := range waiting {
		e.done(errClosed)
	}
	if failed == nil { // behind a failed sync there is nothing to save
		l.closeErr = l.syncCurrent()
	}
	l.files.Lock()
	defer l.files.Unlock()
	l.closeErr = errors.Join(l.closeErr, closeAll(l.segments))
}

// do runs f on the committer and waits for it.
func (l *Log) do(ctx context.Context, f func() error) error {
	answer := make(chan error, 1)
	work := func() {
		if err := l.Err(); err != nil {
			answer <- err
			return
		}
		answer <- f()
	}
	select {
	case l.work <- work:
		return <-answer
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return errClosed
	}
}

func (l *Log) setBusy(since time.Time) {
	l.mu.Lock()
	l.busy = since
	l.mu.Unlock()
}

// publishBounds makes the segments' content visible to readers.
func (l *Log) publishBounds() {
	l.files.RLock()
	defer l.files.RUnlock()
	first, last := int64(-1), int64(-1)
	if n := len(l.segments); n > 0 {
		first, last = l.segments[0].base, l.segments[n-1].last()
	}
	l.first.Store(first)
	l.last.Store(last)
}
