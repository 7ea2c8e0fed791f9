package orderlog

import "fmt"

// The functions of this file run on the committer.

// trim removes leading segments whose every entry is at or below upTo, but never the last segment. A file
// that cannot be removed is no failure of the log: the next opening drops it.
func (l *Log) trim(upTo int64) error {
	for len(l.segments) > 1 && l.segments[1].base <= upTo+1 {
		if err := l.drop(0); err != nil {
			return err
		}
	}
	l.publishBounds()
	return nil
}

// truncate removes the entries above lastSafe, newest first, so that a crash on the way leaves a shorter
// log and never one with a hole.
func (l *Log) truncate(lastSafe int64) error {
	next := l.nextOffset()
	switch {
	case lastSafe+1 >= next: // nothing is above it
		l.moveQueue(next)
		return nil
	case lastSafe < l.first.Load(), next == anyOffset || l.last.Load() < 0:
		return l.clear(min(next, lastSafe+1))
	}
	if err := l.cut(lastSafe); err != nil {
		return l.fail(fmt.Errorf("truncate the write-ahead log to %d: %w", lastSafe, err))
	}
	l.publishBounds()
	l.synced = min(l.synced, lastSafe)
	l.moveQueue(lastSafe + 1)
	return nil
}

func (l *Log) cut(lastSafe int64) error {
	for l.segments[len(l.segments)-1].base > lastSafe {
		if err := l.drop(len(l.segments) - 1); err != nil {
			return err
		}
	}
	l.files.Lock()
	defer l.files.Unlock()
	if err := l.segments[len(l.segments)-1].cut(lastSafe, l.opts.SegmentBytes); err != nil {
		return err
	}
	return syncDir(l.opts.Dir)
}

// clear removes every entry and expects next as the first one to come.
func (l *Log) clear(next int64) error {
	for len(l.segments) > 0 {
		if err := l.drop(len(l.segments) - 1); err != nil {
			return l.fail(fmt.Errorf("clear the write-ahead log: %w", err))
		}
	}
	if err := syncDir(l.opts.Dir); err != nil {
		return l.fail(fmt.Errorf("clear the write-ahead log: %w", err))
	}
	l.publishBounds()
	l.synced = -1
	l.moveQueue(next)
	return nil
}

func (l *Log) drop(i int) error {
	l.files.Lock()
	defer l.files.Unlock()
	s := l.segments[i]
	l.segments = append(l.segments[:i:i], l.segments[i+1:]...)
	return s.remove()
}

func (l *Log) nextOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.next
}

// moveQueue makes next the offset to come and answers what waited under the old order.
func (l *Log) moveQueue(next int64) {
	l.mu.Lock()
	waiting := l.queue.reset(next)
	l.mu.Unlock()
	for _, e := range waiting {
		e.done(ErrTruncated)
	}
}
