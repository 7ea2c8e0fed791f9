package client

import (
	"fmt"
	"time"
)

// depth is how many numbers a producer may be ahead of its first unanswered batch: the leader remembers
// the last five of each producer, and beyond them could not tell a resent batch from a new one.
const depth = 5

// sealed is one numbered batch. It stays in the window until it is answered, and is sent again, with the
// same number and the same bytes, on each handle that is opened meanwhile.
type sealed struct {
	number  uint64
	count   uint32
	crc     uint32
	records []byte
	since   time.Time // of its first record
	place   *place

	sent     bool // on the present handle
	answered bool // at base
	base     uint64
	// An earlier handle that carried it broke without an answer: it may be stored.
	stored bool
}

// window is the bookkeeping of one producer's batches over all its handles. It is pure: no clock, no
// connection. Batches leave it in the order of their numbers.
type window struct {
	batches []*sealed // unanswered, or answered behind an unanswered one; oldest first
	last    uint64    // number of the newest batch ever added
	bytes   int       // granted by the handle; 0 between handles: nothing may be sent
	flying  int       // bytes sent on this handle and not answered
}

// add numbers b and puts it behind all others.
func (w *window) add(b *sealed) {
	w.last++
	b.number = w.last
	w.batches = append(w.batches, b)
}

// open begins a handle: everything unanswered has to be sent on it, oldest first.
func (w *window) open(bytes int) { w.bytes = max(bytes, 1) }

// broke ends a handle without word: what was sent on it may be stored.
func (w *window) broke() {
	for _, b := range w.batches {
		b.stored = b.stored || b.sent && !b.answered
	}
	w.moved()
}

// moved ends a handle whose leader said that it accepted nothing beyond its answers.
func (w *window) moved() {
	for _, b := range w.batches {
		b.sent = false
	}
	w.bytes, w.flying = 0, 0
}

// next is the batch to send now, if any: the oldest one not sent on this handle, when it is within the
// depth and fits the granted bytes. A single batch always fits. Since it is always the oldest, nothing
// new overtakes what has to be resent.
func (w *window) next() *sealed {
	if w.bytes == 0 {
		return nil
	}
	for _, b := range w.batches {
		if b.sent || b.answered {
			continue
		}
		if b.number >= w.batches[0].number+depth || w.flying > 0 && w.flying+len(b.records) > w.bytes {
			return nil
		}
		return b
	}
	return nil
}

// room reports whether one more batch than what stands in the window could be sent now.
func (w *window) room() bool {
	return w.bytes > 0 && w.flying < w.bytes && len(w.batches) < depth && w.next() == nil
}

// send notes that b, which next returned, was sent.
func (w *window) send(b *sealed) {
	b.sent = true
	w.flying += len(b.records)
}

// ack notes one answer, and does nothing for a repeated one. An answer to what was not asked is an error.
func (w *window) ack(number, base uint64, count uint32) error {
	if number == 0 || number > w.last {
		return fmt.Errorf("the leader acknowledged batch %d, the newest one is %d", number, w.last)
	}
	if len(w.batches) == 0 || number < w.batches[0].number {
		return nil
	}
	b := w.batches[number-w.batches[0].number]
	switch {
	case b.answered:
		return nil
	case !b.sent:
		return fmt.Errorf("the leader acknowledged batch %d, which this handle has not sent", number)
	case b.count != count:
		return fmt.Errorf("the leader acknowledged %d records of batch %d, which has %d", count, number, b.count)
	}
	b.answered, b.base = true, base
	w.flying -= len(b.records)
	return nil
}

// resolved takes the oldest batch out when it is answered, else it returns nil. An answer that overtook an
// older batch's waits for that one, so that nothing is reported stored behind what may still fail.
func (w *window) resolved() *sealed {
	if len(w.batches) == 0 || !w.batches[0].answered {
		return nil
	}
	b := w.batches[0]
	w.batches[0] = nil
	w.batches = w.batches[1:]
	return b
}

// first is the number of the oldest unanswered batch, or the next one to be given.
func (w *window) first() uint64 {
	if len(w.batches) == 0 {
		return w.last + 1
	}
	return w.batches[0].number
}

// waiting reports whether an answer is outstanding on this handle.
func (w *window) waiting() bool { return w.flying > 0 }

// unresolved yields what is not resolved; maybe tells whether it may be stored all the same.
func (w *window) unresolved(yield func(b *sealed, maybe bool) bool) {
	for _, b := range w.batches {
		if !yield(b, b.stored || b.sent || b.answered) {
			return
		}
	}
}

// renew numbers everything unanswered from 1 again, for a producer that takes a new identity because
// its leader no longer knows the old one. It refuses when a batch may be stored under its old number.
func (w *window) renew() bool {
	for _, b := range w.batches {
		if b.stored || b.answered {
			return false
		}
	}
	w.last = 0
	batches := w.batches
	w.batches = nil
	for _, b := range batches {
		w.add(b)
	}
	return true
}
