package star

import (
	"errors"
	"sort"
	"sync"
)

// tailBatch is a committed batch that a leader keeps in memory for readers at the tail.
type tailBatch struct {
	base    uint64
	count   uint32
	crc     uint32
	records []byte
}

func (t tailBatch) end() uint64 { return t.base + uint64(t.count) }

// errBelowTail: the sequence asked for has left the tail window.
var errBelowTail = errors.New("below the tail window")

// readTail returns committed batches from the one that holds sequence from on, about maxBytes of them,
// and where the stream's committed records end. At the end it returns no batch and a channel that closes
// when there is more, or when the leadership has ended.
func (s *stream) readTail(from uint64, maxBytes int) (batches []tailBatch, end uint64, more <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten || s.grown == nil {
		return nil, 0, nil, errNotLeading
	}
	if from >= s.committed {
		return nil, s.committed, s.grown, nil
	}
	i := sort.Search(len(s.tail), func(i int) bool { return s.tail[i].end() > from })
	if i == len(s.tail) || s.tail[i].base > from {
		return nil, s.committed, nil, errBelowTail
	}
	for n := 0; i < len(s.tail) && n < maxBytes; i++ {
		batches = append(batches, s.tail[i])
		n += len(s.tail[i].records)
	}
	return batches, s.committed, nil, nil
}

// tailBudget keeps the tail windows of all streams of a star within one bound. The oldest batch of the
// whole star goes first, so a quiet stream's window survives as long as the bound allows.
type tailBudget struct {
	bound int

	mu    sync.Mutex
	used  int
	queue []tailEntry // oldest first
}

type tailEntry struct {
	stream *stream
	bytes  int
}

// add counts a batch that s has just appended to its window. s.mu is held, so nothing is cut here.
func (b *tailBudget) add(s *stream, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += bytes
	b.queue = append(b.queue, tailEntry{s, bytes})
}

// trim drops the oldest batches until the bound holds again. No stream's lock may be held.
func (b *tailBudget) trim() {
	for {
		b.mu.Lock()
		if b.used <= b.bound || len(b.queue) == 0 {
			b.mu.Unlock()
			return
		}
		oldest := b.queue[0]
		b.queue[0] = tailEntry{}
		b.queue = b.queue[1:]
		b.used -= oldest.bytes
		b.mu.Unlock()
		if oldest.stream != nil {
			oldest.stream.dropOldestTail()
		}
	}
}

func (s *stream) dropOldestTail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tail) > 0 {
		s.tail[0] = tailBatch{}
		s.tail = s.tail[1:]
	}
}

// forget releases the window of a stream whose leadership ended. s.mu is held; its entries stay in the
// queue and are found empty later.
func (b *tailBudget) forget(s *stream) { s.tail = nil }

// bytes is how much all windows hold.
func (b *tailBudget) bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
