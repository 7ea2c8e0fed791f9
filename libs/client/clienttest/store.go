package clienttest

import (
	"fmt"
	"slices"
	"sync"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// remembered is how many batches of each producer a leader knows.
const remembered = 5

type stored struct {
	number, base uint64
	count        uint32
}

// stream is one stream of the store. mu guards all of it.
type stream struct {
	mu        sync.Mutex
	info      *novav1.StreamInfo
	batches   []*novav1.ReadBatch
	next      uint64
	epoch     uint64
	leader    int // index of a star; -1: vacant
	claim     string
	producers map[string][]stored
	grown     chan struct{} // closed and replaced at each batch
	handles   map[*handle]struct{}
}

// handle is one open Produce call.
type handle struct {
	producer, claim string
	epoch           uint64
	out             chan *novav1.ProduceResponse
	end             chan error // capacity 1
}

func (h *handle) stop(err error) {
	select {
	case h.end <- err:
	default:
	}
}

// errMoved ends a handle by Moved.
var errMoved = fmt.Errorf("moved")

// attach opens the stream at star, which becomes the leader of a vacant one.
func (s *stream) attach(star int, name string, addresses func(int) (string, string), o *novav1.Open) (*handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader >= 0 && star >= 0 && s.leader != star {
		leader, address := addresses(s.leader)
		return nil, &api.NotOwnerError{Star: leader, Address: address, From: name}
	}
	if s.info.GetMode() == novav1.Mode_MODE_FENCED {
		switch {
		case o.GetClaim() == "":
			return nil, &api.FieldError{Field: "claim", Why: "a fenced stream needs a claim"}
		case s.claim != "" && s.claim != o.GetClaim() && o.GetReopen():
			return nil, &api.FencedError{Epoch: s.epoch, Why: "a newer producer has opened this stream"}
		case s.claim != o.GetClaim():
			s.claim = o.GetClaim()
			s.epoch++
			s.endHandles(&api.FencedError{Epoch: s.epoch, Why: "a newer producer has opened this stream"})
		}
	}
	if s.leader < 0 {
		s.leader = max(star, 0)
		s.epoch++
	}
	for h := range s.handles {
		if o.GetProducer() != "" && h.producer == o.GetProducer() {
			h.stop(&api.UnavailableError{Why: "the same producer has opened the stream again"})
			delete(s.handles, h)
		}
	}
	h := &handle{producer: o.GetProducer(), claim: o.GetClaim(), epoch: s.epoch, out: make(chan *novav1.ProduceResponse, 64), end: make(chan error, 1)}
	s.handles[h] = struct{}{}
	return h, nil
}

func (s *stream) endHandles(err error) {
	for h := range s.handles {
		h.stop(err)
	}
	clear(s.handles)
}

// append takes one batch and returns where it lies.
func (s *stream) append(h *handle, a *novav1.Append, maxRecordBytes int) (stored, error) {
	if batch.CRC(a.GetRecords()) != a.GetCrc32C() {
		return stored{}, &api.FieldError{Field: "crc32c", Why: "damaged"}
	}
	if err := batch.Check(a.GetRecords(), a.GetCount(), maxRecordBytes); err != nil {
		return stored{}, &api.FieldError{Field: "records", Why: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.handles[h]; !ok {
		return stored{}, &api.UnavailableError{Why: "this handle has ended"}
	}
	if h.producer != "" {
		known := s.producers[h.producer]
		last := uint64(0)
		if len(known) > 0 {
			last = known[len(known)-1].number
		}
		if i := slices.IndexFunc(known, func(k stored) bool { return k.number == a.GetNumber() }); i >= 0 {
			return known[i], nil
		}
		if a.GetNumber() != last+1 {
			return stored{}, &api.OutOfOrderError{Expected: last + 1}
		}
	}
	at := stored{number: a.GetNumber(), base: s.next, count: a.GetCount()}
	if h.producer != "" {
		known := append(s.producers[h.producer], at)
		s.producers[h.producer] = known[max(0, len(known)-remembered):]
	}
	s.batches = append(s.batches, &novav1.ReadBatch{Base: at.base, Count: at.count, Crc32C: a.GetCrc32C(), Records: slices.Clone(a.GetRecords())})
	s.next += uint64(at.count)
	close(s.grown)
	s.grown = make(chan struct{})
	return at, nil
}

// from returns the batches from sequence on, where the stream ends, and what closes when it grows.
func (s *stream) from(sequence uint64) ([]*novav1.ReadBatch, uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.batches, sequence, func(b *novav1.ReadBatch, n uint64) int {
		if b.GetBase()+uint64(b.GetCount()) <= n {
			return -1
		}
		return 1
	})
	return slices.Clone(s.batches[i:]), s.next, s.grown
}
