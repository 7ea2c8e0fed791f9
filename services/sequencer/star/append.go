package star

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/services/sequencer/star/dedupe"
)

// errNotAccepted: the leadership has begun to depart. The batch was not taken and may be sent elsewhere.
var errNotAccepted = errors.New("not accepted: the leadership is moving")

// append takes one batch from a handle: it checks it, gives it its sequences and puts it into the
// chain's open flight. The acknowledgement comes later, from commit. It blocks while the chain pushes
// back.
//
// The sequences are taken under mu and the flight is joined under order alone, so that commits go on
// while the chain pushes back. If the chain refuses, the sequences are given back: nobody can have taken
// later ones, since order is still held.
func (s *stream) append(ctx context.Context, h *handle, a *novav1.Append) error {
	if err := s.check(a); err != nil {
		return err
	}
	s.order.Lock()
	defer s.order.Unlock()

	s.mu.Lock()
	if !s.accepts(h.epoch) {
		s.mu.Unlock()
		return errNotAccepted
	}
	if h.producer != "" {
		verdict, original, expected := s.table.Judge(h.producer, a.GetNumber())
		switch verdict {
		case dedupe.Repeat:
			s.mu.Unlock()
			h.ack(original, len(a.GetRecords()))
			return nil
		case dedupe.Undecided:
			for _, p := range s.pending {
				if p.producer == h.producer && p.batch == original {
					if p.handle == h { // the one answer gives back both
						p.bytes += len(a.GetRecords())
					} else {
						p.handle, p.bytes = h, len(a.GetRecords())
					}
				}
			}
			s.mu.Unlock()
			return nil
		case dedupe.OutOfOrder:
			s.mu.Unlock()
			return &api.OutOfOrderError{Expected: expected}
		}
	}
	p := &pending{producer: h.producer, handle: h, bytes: len(a.GetRecords()), batch: dedupe.Batch{Number: a.GetNumber(), Base: s.next, Count: a.GetCount()}}
	if p.producer != "" {
		s.table.Accept(p.producer, p.batch)
	}
	s.next += uint64(a.GetCount())
	s.pending = append(s.pending, p)
	s.mu.Unlock()

	err := s.chain.add(ctx, s, p.batch, p.producer, a)
	if err != nil {
		s.withdraw(p)
		return fmt.Errorf("append to %s: %w", s.name, err)
	}
	s.meter.appended.Add(int64(len(a.GetRecords())))
	return nil
}

// withdraw takes back the newest batch, which joined no flight. order is held.
func (s *stream) withdraw(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pending); n > 0 && s.pending[n-1] == p {
		s.pending = s.pending[:n-1]
		s.next = p.batch.Base
		if p.producer != "" {
			s.table.Withdraw(p.producer, p.batch.Number)
		}
	}
	s.wakeDrained()
}

// check refuses what can never be accepted: a batch that is too large or is not what it claims.
func (s *stream) check(a *novav1.Append) error {
	cfg := s.inc.star.cfg
	if n := len(a.GetRecords()); n > int(cfg.MaxBatchBytes) {
		return &api.FieldError{Field: "records", Why: fmt.Sprintf("a batch has at most %d bytes, this one has %d", cfg.MaxBatchBytes, n)}
	}
	if a.GetNumber() == 0 {
		return &api.FieldError{Field: "number", Why: "batches are numbered from 1"}
	}
	if a.GetCount() == 0 || a.GetCount() > batch.MaxCount {
		return &api.FieldError{Field: "count", Why: fmt.Sprintf("a batch has 1 to %d records", batch.MaxCount)}
	}
	if batch.CRC(a.GetRecords()) != a.GetCrc32C() {
		return &api.FieldError{Field: "crc32c", Why: "the records were damaged on the way; send them again"}
	}
	if err := batch.Check(a.GetRecords(), a.GetCount(), int(cfg.MaxRecordBytes)); err != nil {
		return &api.FieldError{Field: "records", Why: err.Error()}
	}
	return nil
}

// commit is called from the chain, in slot order, for each batch of this stream that has become durable
// on a copy quorum: it acknowledges, shows the records to readers and keeps them in the tail window.
//
// A batch of an epoch that this leadership is not, or that has ended, is acknowledged to nobody.
func (s *stream) commit(t tailBatch, e uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten || s.epoch != e || len(s.pending) == 0 || s.pending[0].batch.Base != t.base {
		return
	}
	p := s.pending[0]
	s.pending[0] = nil
	s.pending = s.pending[1:]
	if p.producer != "" {
		s.table.Commit(p.producer, p.batch)
	}
	s.committed = t.end()
	s.tail = append(s.tail, t)
	s.inc.star.tails.add(s, len(t.records))
	close(s.grown)
	s.grown = make(chan struct{})
	if p.handle != nil {
		p.handle.ack(p.batch, p.bytes)
	}
	s.wakeDrained()
}

func (s *stream) wakeDrained() {
	if s.drained != nil && len(s.pending) == 0 {
		close(s.drained)
		s.drained = nil
	}
}
