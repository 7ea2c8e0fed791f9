package orderlog

import (
	"fmt"
	"sort"

	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server/wal"
)

// reader walks the log in one direction. As Oxia's own, it is not safe for concurrent use.
type reader struct {
	log    *Log
	next   int64
	step   int64
	closed bool
}

// NewReader returns a reader from the entry behind after towards the end.
func (l *Log) NewReader(after int64) (wal.Reader, error) {
	if after+1 < l.FirstOffset() {
		return nil, fmt.Errorf("read from entry %d, the first is %d: %w", after+1, l.FirstOffset(), wal.ErrEntryNotFound)
	}
	return &reader{log: l, next: after + 1, step: 1}, nil
}

// NewReverseReader returns a reader from the last entry towards the beginning.
func (l *Log) NewReverseReader() (wal.Reader, error) {
	return &reader{log: l, next: l.LastOffset(), step: -1}, nil
}

func (r *reader) HasNext() bool {
	first := r.log.FirstOffset()
	return !r.closed && first >= 0 && r.next >= first && r.next <= r.log.LastOffset()
}

func (r *reader) ReadNext() (*proto.LogEntry, error) {
	if r.closed {
		return nil, wal.ErrReaderClosed
	}
	if !r.HasNext() {
		return nil, wal.ErrEntryNotFound
	}
	e, err := r.log.read(r.next)
	if err != nil {
		return nil, err
	}
	r.next += r.step
	return e, nil
}

func (r *reader) Close() error {
	r.closed = true
	return nil
}

func (l *Log) read(offset int64) (*proto.LogEntry, error) {
	l.files.RLock()
	defer l.files.RUnlock()
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > offset }) - 1
	if i < 0 || offset > l.segments[i].last() {
		return nil, wal.ErrEntryNotFound // trimmed or truncated since the reader looked
	}
	r, err := l.segments[i].read(offset)
	if err != nil {
		return nil, err
	}
	e := &proto.LogEntry{}
	if err := e.UnmarshalVT(r.payload); err != nil {
		return nil, fmt.Errorf("decode entry %d: %w", offset, err)
	}
	return e, nil
}
