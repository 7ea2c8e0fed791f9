package flightlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"

	"nova.internal/libs/api/novav1"
)

// Reader reads committed flights from a class's copies. A copy that is away, lacks the object or holds a
// damaged one is reported and the next is asked. It is safe for concurrent use.
type Reader struct {
	copies *Copies
	report func(copy, key string, err error)
	turn   atomic.Uint64
	shy    []atomic.Int64 // until when a copy is asked last, Unix nanoseconds
}

const (
	// readTimeout bounds one copy's answer; then the next is asked.
	readTimeout = 5 * time.Second
	// shyFor is how long a copy that could not serve is asked after the others.
	shyFor = 30 * time.Second
	// prefixGuess is read first of a flight: it holds the table of all but the busiest.
	prefixGuess = 16 << 10
)

// NewReader returns a reader; report hears of every copy that could not serve an object it should hold,
// which may also be one that is still being finished. It may be nil.
func NewReader(copies *Copies, report func(copy, key string, err error)) *Reader {
	return &Reader{copies: copies, report: report, shy: make([]atomic.Int64, len(copies.List))}
}

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

// order is in which order to ask the copies: in turn, and those that failed lately last.
func (r *Reader) order() []int {
	n := len(r.copies.List)
	first, now := int(r.turn.Add(1)%uint64(n)), time.Now().UnixNano()
	order, shy := make([]int, 0, n), make([]int, 0, n)
	for i := range n {
		i = (first + i) % n
		if r.shy[i].Load() > now {
			shy = append(shy, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, shy...)
}

// any asks the copies in turn until one serves.
func (r *Reader) any(ctx context.Context, key string, read func(context.Context, Copy) error) error {
	var errs []error
	for _, i := range r.order() {
		c := r.copies.List[i]
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			return read(ctx, c)
		}()
		if err == nil {
			r.shy[i].Store(0)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("read %s: %w", key, ctx.Err())
		}
		r.shy[i].Store(time.Now().Add(shyFor).UnixNano())
		if r.report != nil {
			r.report(c.Name(), key, err)
		}
		errs = append(errs, fmt.Errorf("%s: %w", c.Name(), err))
	}
	return fmt.Errorf("read %s from any copy: %w", key, errors.Join(errs...))
}

// Descriptors reads the table of one flight.
func (r *Reader) Descriptors(ctx context.Context, chain string, slot uint64) (batches []BatchRef, err error) {
	key := SlotKey(chain, slot)
	err = r.any(ctx, key, func(ctx context.Context, c Copy) error {
		p, err := readPrefix(ctx, c, key)
		if err != nil {
			return err
		}
		if err := p.isOf(chain, slot); err != nil {
			return err
		}
		batches = p.Batches
		return nil
	})
	return batches, err
}

// Batch reads the bytes of one batch by its ref.
func (r *Reader) Batch(ctx context.Context, chain string, ref *novav1.Ref) ([]byte, error) {
	records, err := r.Pieces(ctx, chain, ref.GetSlot(), []Piece{pieceOf(ref)})
	if err != nil {
		return nil, err
	}
	return records[0], nil
}

// Piece is one batch to read, by where it lies in a flight.
type Piece struct {
	Offset uint64
	Length uint32
	CRC    uint32
}

func pieceOf(ref *novav1.Ref) Piece {
	return Piece{Offset: ref.GetOffset(), Length: ref.GetLength(), CRC: ref.GetCrc32C()}
}

// Pieces reads batches of one flight in one range, each against its checksum. What it returns shares
// memory.
func (r *Reader) Pieces(ctx context.Context, chain string, slot uint64, pieces []Piece) (records [][]byte, err error) {
	if len(pieces) == 0 {
		return nil, nil
	}
	key := SlotKey(chain, slot)
	first, end := pieces[0].Offset, uint64(0)
	for _, p := range pieces {
		if p.Offset > MaxObjectBytes {
			return nil, fmt.Errorf("read %s: a batch at offset %d", key, p.Offset)
		}
		first, end = min(first, p.Offset), max(end, p.Offset+uint64(p.Length))
	}
	if end-first > MaxObjectBytes {
		return nil, fmt.Errorf("read %s: %d bytes at once", key, end-first)
	}
	err = r.any(ctx, key, func(ctx context.Context, c Copy) error {
		b, err := c.GetRange(ctx, key, int64(first), int64(end-first))
		if err != nil {
			return err
		}
		records, err = cut(b, first, pieces)
		return err
	})
	return records, err
}

// cut takes the pieces out of a range of the flight that begins at first.
func cut(b []byte, first uint64, pieces []Piece) ([][]byte, error) {
	records := make([][]byte, len(pieces))
	for i, p := range pieces {
		from, to := p.Offset-first, p.Offset-first+uint64(p.Length)
		if to > uint64(len(b)) {
			return nil, fmt.Errorf("%w: it is shorter than its table says", ErrCorrupt)
		}
		records[i] = b[from:to:to]
		if crc32.Checksum(records[i], castagnoli) != p.CRC {
			return nil, fmt.Errorf("%w: a batch's checksum is wrong", ErrCorrupt)
		}
	}
	return records, nil
}
