// Package history records what producers were promised and checks what readers were given.
//
// The checker knows nothing of nova but its promise: a record that was acknowledged at a sequence is read
// at that sequence, once, with its bytes; sequences are dense; the records of one producer are read in
// the order it sent them; and nothing is read that nobody sent.
package history

import (
	"fmt"
	"sync"
)

// Stream is the history of one stream. It is safe for concurrent use.
type Stream struct {
	mu    sync.Mutex
	sent  map[string]sent   // by value, which is unique
	acked map[uint64]string // value by sequence
	order map[string]int    // next number of each producer
}

type sent struct {
	producer string
	number   int
}

// New returns an empty history.
func New() *Stream {
	return &Stream{sent: map[string]sent{}, acked: map[uint64]string{}, order: map[string]int{}}
}

// Sent notes that a producer is about to send its next record and returns the record's unique value.
func (s *Stream) Sent(producer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.order[producer]
	s.order[producer]++
	value := fmt.Sprintf("%s/%d", producer, n)
	s.sent[value] = sent{producer, n}
	return value
}

// Acked notes that a value was acknowledged at a sequence. Two values at one sequence are an error of
// their own.
func (s *Stream) Acked(value string, sequence uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.acked[sequence]; ok && other != value {
		return fmt.Errorf("sequence %d was given to %q and to %q", sequence, other, value)
	}
	s.acked[sequence] = value
	return nil
}

// Acknowledged is how many records were.
func (s *Stream) Acknowledged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// Check holds what was read, from sequence 0 on, against the history.
func (s *Stream) Check(read []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]int{}
	last := map[string]int{}
	for i, value := range read {
		origin, ok := s.sent[value]
		if !ok {
			return fmt.Errorf("sequence %d holds %q, which nobody sent", i, value)
		}
		if first, ok := seen[value]; ok {
			return fmt.Errorf("%q is at sequence %d and again at %d", value, first, i)
		}
		seen[value] = i
		if before, ok := last[origin.producer]; ok && before > origin.number {
			return fmt.Errorf("sequence %d: %s's record %d comes after its record %d", i, origin.producer, origin.number, before)
		}
		last[origin.producer] = origin.number
	}
	for sequence, value := range s.acked {
		switch {
		case sequence >= uint64(len(read)):
			return fmt.Errorf("%q was acknowledged at sequence %d, the stream ends at %d", value, sequence, len(read))
		case read[sequence] != value:
			return fmt.Errorf("%q was acknowledged at sequence %d, which holds %q", value, sequence, read[sequence])
		}
	}
	return nil
}
