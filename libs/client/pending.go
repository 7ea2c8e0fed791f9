package client

import (
	"context"
	"errors"
	"time"

	"nova.internal/libs/api/batch"
)

// ErrOutcomeUnknown marks records that were sent and never answered: they may be stored or not.
var ErrOutcomeUnknown = errors.New("the outcome is unknown: the records may or may not be stored")

// ErrDeliveryTimeout marks records that could not be delivered within the producer's delivery timeout.
var ErrDeliveryTimeout = errors.New("not delivered in time")

// place is where a batch came to lie, known once done is closed.
type place struct {
	done chan struct{}
	base uint64
	err  error
}

func (p *place) resolve(base uint64, err error) {
	p.base, p.err = base, err
	close(p.done)
}

// Pending is the future of one Append.
type Pending struct {
	place  *place
	offset uint32 // of the first record within its batch
}

// Done is closed when the outcome is known.
func (p *Pending) Done() <-chan struct{} { return p.place.done }

// Wait returns the sequence of the first record of the Append; the others follow it densely. An error
// that wraps ErrOutcomeUnknown leaves open whether the records are stored; any other error but ctx's
// says that they are not.
func (p *Pending) Wait(ctx context.Context) (base uint64, err error) {
	select {
	case <-p.place.done:
		if p.place.err != nil {
			return 0, p.place.err
		}
		return p.place.base + uint64(p.offset), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// building collects the records that will be the next batch.
type building struct {
	records []byte
	count   uint32
	since   time.Time
	place   *place
}

// add encodes one Append's records and returns their future.
func (b *building) add(records []batch.Record, now time.Time) *Pending {
	if b.count == 0 {
		b.place, b.since = &place{done: make(chan struct{})}, now
	}
	p := &Pending{place: b.place, offset: b.count}
	for _, r := range records {
		if r.Time.IsZero() {
			r.Time = now
		}
		b.records = batch.Append(b.records, r)
	}
	b.count += uint32(len(records))
	return p
}

// seal ends the batch and begins an empty one.
func (b *building) seal() *sealed {
	s := &sealed{count: b.count, crc: batch.CRC(b.records), records: b.records, since: b.since, place: b.place}
	*b = building{}
	return s
}

// encodedBytes is what the records take in a batch, and the largest body among them.
func encodedBytes(records []batch.Record, now time.Time) (total, largest int) {
	for _, r := range records {
		if r.Time.IsZero() {
			r.Time = now
		}
		n := batch.EncodedBytes(r)
		total += n
		prefix := 1
		for n-prefix >= 1<<(7*prefix) {
			prefix++
		}
		largest = max(largest, n-prefix)
	}
	return total, largest
}
