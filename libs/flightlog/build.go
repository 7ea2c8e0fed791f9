package flightlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/oklog/ulid/v2"
)

// ErrBadBatch: a batch that no flight can hold. It was not taken; the writer goes on.
var ErrBadBatch = errors.New("malformed batch")

// maxBatchBytes bounds one batch, so that a flight stays below what is read whole.
const maxBatchBytes = MaxObjectBytes / 4

// openFlight takes batches. Sealing it makes it immutable.
type openFlight struct {
	batches []Batch
	table   []byte // the batches' rows, encoded as they come
	bytes   int    // of records and table
	since   time.Time
}

// add appends a batch, or refuses it and leaves the flight as it was.
func (o *openFlight) add(b Batch) error {
	id, err := ulid.ParseStrict(b.Stream)
	switch {
	case err != nil:
		return fmt.Errorf("%w: stream id %q: %w", ErrBadBatch, b.Stream, err)
	case b.Count == 0 || b.Base+uint64(b.Count) < b.Base:
		return fmt.Errorf("%w: %d records from sequence %d", ErrBadBatch, b.Count, b.Base)
	case len(b.Records) == 0 || len(b.Records) > maxBatchBytes:
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrBadBatch, len(b.Records), maxBatchBytes)
	case len(b.Producer) > MaxProducerBytes:
		return fmt.Errorf("%w: a producer id of %d bytes, of at most %d", ErrBadBatch, len(b.Producer), MaxProducerBytes)
	}
	before := len(o.table)
	o.table = append(o.table, id[:]...)
	o.table = binary.LittleEndian.AppendUint32(o.table, b.CRC)
	o.table = binary.LittleEndian.AppendUint32(o.table, uint32(len(b.Records)))
	o.table = binary.LittleEndian.AppendUint32(o.table, b.Count)
	o.table = binary.AppendUvarint(o.table, b.Epoch)
	o.table = binary.AppendUvarint(o.table, b.Base)
	o.table = binary.AppendUvarint(o.table, b.Number)
	o.table = binary.AppendUvarint(o.table, uint64(len(b.Producer)))
	o.table = append(o.table, b.Producer...)
	o.batches = append(o.batches, b)
	o.bytes += len(b.Records) + len(o.table) - before
	return nil
}

// full says whether the flight should take no more.
func (o *openFlight) full(flightBytes int) bool {
	return o.bytes >= flightBytes || len(o.batches) >= MaxBatches
}

// sealedFlight has its slot and its bytes, which nobody changes any more.
type sealedFlight struct {
	Header
	parts   [][]byte // of the object: prefix, then each batch as its producer sent it
	batches []Batch
	refs    []BatchRef
	bytes   int
	since   time.Time
}

// seal lays the flight out under h.
func (o *openFlight) seal(h Header, now time.Time) *sealedFlight {
	total := flightFixed + len(h.Chain) + len(o.table) + 4
	b := make([]byte, 0, total)
	b = append(b, flightMagic[:]...)
	b = append(b, flightVersion, byte(h.Class), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(total))
	b = binary.LittleEndian.AppendUint64(b, h.Slot)
	b = binary.LittleEndian.AppendUint64(b, h.Committed)
	b = append(b, h.Nonce[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(o.batches)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(h.Chain)))
	b = append(b, h.Chain...)
	b = append(b, o.table...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))

	f := &sealedFlight{Header: h, batches: o.batches, bytes: o.bytes, since: now, refs: make([]BatchRef, len(o.batches)), parts: make([][]byte, 1, len(o.batches)+1)}
	f.parts[0] = b
	offset := uint64(total)
	for i, batch := range o.batches {
		f.refs[i] = BatchRef{
			Stream: batch.Stream, Slot: h.Slot, Offset: offset, Length: uint32(len(batch.Records)), Epoch: batch.Epoch,
			Base: batch.Base, Count: batch.Count, CRC: batch.CRC, Producer: batch.Producer, Number: batch.Number,
		}
		offset += uint64(len(batch.Records))
		f.parts = append(f.parts, batch.Records)
	}
	return f
}
