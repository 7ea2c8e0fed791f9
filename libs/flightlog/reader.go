package flightlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
)

// Reader reads committed flights from a class's copies. A copy that is away, lacks the object or holds a
// damaged one is reported and the next is asked. It is safe for concurrent use.
type Reader struct {
	copies *Copies
	report func(copy, key string, err error)
	turn   atomic.Uint64
}

// NewReader returns a reader; report hears of every copy that could not serve an object it should hold.
func NewReader(copies *Copies, report func(copy, key string, err error)) *Reader {
	return &Reader{copies: copies, report: report}
}

// prefixGuess is read first: it holds the table of all but the busiest flights.
const prefixGuess = 64 << 10

func readPrefix(ctx context.Context, c Copy, key string) (*Prefix, error) {
	b, err := c.GetRange(ctx, key, 0, prefixGuess)
	if err != nil {
		return nil, err
	}
	n, err := prefixBytes(b)
	if err != nil {
		return nil, err
	}
	if n > len(b) {
		if b, err = c.GetRange(ctx, key, 0, int64(n)); err != nil {
			return nil, err
		}
	}
	return DecodePrefix(b)
}

// any asks the copies in turn until one serves.
func (r *Reader) any(ctx context.Context, key string, read func(Copy) error) error {
	var errs []error
	first := int(r.turn.Add(1))
	for i := range r.copies.List {
		c := r.copies.List[(first+i)%len(r.copies.List)]
		err := read(c)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.report(c.Name(), key, err)
		errs = append(errs, fmt.Errorf("%s: %w", c.Name(), err))
	}
	return fmt.Errorf("read %s from any copy: %w", key, errors.Join(errs...))
}

// Descriptors reads the table of one flight.
func (r *Reader) Descriptors(ctx context.Context, chain string, slot uint64) (batches []BatchRef, err error) {
	key := SlotKey(chain, slot)
	err = r.any(ctx, key, func(c Copy) error {
		p, err := readPrefix(ctx, c, key)
		if err != nil {
			return err
		}
		if p.Chain != chain || p.Slot != slot {
			return fmt.Errorf("%w: it says it is slot %d of %s", ErrCorrupt, p.Slot, p.Chain)
		}
		batches = p.Batches
		return nil
	})
	return batches, err
}

// Piece is one batch to read, by where it lies in a flight.
type Piece struct {
	Offset uint64
	Length uint32
	CRC    uint32
}

// Pieces reads batches of one flight in one range: they are checked one by one and share memory.
func (r *Reader) Pieces(ctx context.Context, chain string, slot uint64, pieces []Piece) (records [][]byte, err error) {
	first, end := pieces[0].Offset, uint64(0)
	for _, p := range pieces {
		first, end = min(first, p.Offset), max(end, p.Offset+uint64(p.Length))
	}
	key := SlotKey(chain, slot)
	err = r.any(ctx, key, func(c Copy) error {
		b, err := c.GetRange(ctx, key, int64(first), int64(end-first))
		if err != nil {
			return err
		}
		records = records[:0]
		for _, p := range pieces {
			from := p.Offset - first
			if from+uint64(p.Length) > uint64(len(b)) {
				return fmt.Errorf("%w: it is shorter than its table says", ErrCorrupt)
			}
			piece := b[from : from+uint64(p.Length) : from+uint64(p.Length)]
			if crc32.Checksum(piece, castagnoli) != p.CRC {
				return fmt.Errorf("%w: a batch's checksum is wrong", ErrCorrupt)
			}
			records = append(records, piece)
		}
		return nil
	})
	return records, err
}
