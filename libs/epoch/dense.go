package epoch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Batch is one batch of a stream where a chain holds it.
type Batch struct {
	Chain    string
	Slot     uint64
	Offset   uint64 // bytes into the flight
	Length   uint32 // bytes
	Base     uint64 // sequence of its first record
	Count    uint32 // records
	CRC      uint32 // CRC32C of its bytes
	Epoch    uint64 // of the leadership that wrote it
	Producer string // "": not idempotent
	Number   uint64 // the producer's number of it
}

// End is the sequence after the batch's last record.
func (b Batch) End() uint64 { return b.Base + uint64(b.Count) }

// ErrGap is evidence that is not dense. Something acknowledged may be missing, so the gate waits for a
// person and never cuts the stream short there.
var ErrGap = errors.New("gap in the evidence of coverage")

// Dense picks, from everything that a chain holds of a stream, what a gate must publish: the batches of
// the holder's epoch from covered on, in order.
//
// Batches of other epochs never count: an older one was covered by the gate that ended it, and a newer
// one cannot be in the holder's chain unless the holder is somebody else.
func Dense(found []Batch, covered, holder uint64) ([]Batch, error) {
	var dense []Batch
	for _, b := range found {
		if b.Epoch == holder && b.End() > covered {
			dense = append(dense, b)
		}
	}
	slices.SortStableFunc(dense, func(a, b Batch) int { return cmp.Compare(a.Base, b.Base) })
	next := covered
	for _, b := range dense {
		if b.Count == 0 || b.End() < b.Base {
			return nil, fmt.Errorf("%w: the chain %s claims %d records at sequence %d (slot %d)", ErrGap, b.Chain, b.Count, b.Base, b.Slot)
		}
		if b.Base != next {
			return nil, fmt.Errorf("%w: sequence %d comes next, the chain %s goes on at %d (slot %d)", ErrGap, next, b.Chain, b.Base, b.Slot)
		}
		next = b.End()
	}
	return dense, nil
}
