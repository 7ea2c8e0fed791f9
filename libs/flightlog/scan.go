package flightlog

import (
	"context"
	"fmt"
	"sync"

	"nova.internal/libs/api/novav1"
)

// segments finds the segment row that holds a sequence.
type segments interface {
	Floor(ctx context.Context, id string, sequence uint64) (*novav1.SegmentRow, error)
}

// ScanBatch is a published batch.
type ScanBatch struct {
	Base    uint64
	Count   uint32
	CRC     uint32
	Records []byte
}

// readAhead is how many reads a scan has under way at once, and pieceBytes about how large one is.
const (
	readAhead  = 4
	pieceBytes = 1 << 20
)

// Scan visits the published batches of a stream that hold the sequences [from, to), in order. Below to
// everything must be covered. The first batch may begin below from, and the last may end above to. Rows
// that do not hold what they claim end the scan: a gap is never skipped.
func Scan(ctx context.Context, r *Reader, rows segments, id string, from, to uint64, visit func(ScanBatch) error) error {
	for next := from; next < to; {
		row, err := rows.Floor(ctx, id, next)
		if err != nil {
			return fmt.Errorf("find the segment of %s that holds sequence %d: %w", id, next, err)
		}
		if err = checkRow(row, next); err == nil {
			next, err = scanRefs(ctx, r, row, next, to, visit)
		}
		if err != nil {
			return fmt.Errorf("segment [%d, %d) of %s: %w", row.GetBase(), row.GetEnd(), id, err)
		}
	}
	return nil
}

// checkRow says whether the row's refs are dense over what it claims, and whether that holds seq.
func checkRow(row *novav1.SegmentRow, seq uint64) error {
	if row.GetBase() > seq || row.GetEnd() <= seq {
		return fmt.Errorf("sequence %d is covered and not in it", seq)
	}
	next := row.GetBase()
	for _, ref := range row.GetRefs() {
		if ref.GetBase() != next || ref.GetCount() == 0 {
			return fmt.Errorf("its refs go on with %d records at %d where %d comes next", ref.GetCount(), ref.GetBase(), next)
		}
		if int(ref.GetChain()) >= len(row.GetChains()) {
			return fmt.Errorf("the ref at %d names chain %d of %d", ref.GetBase(), ref.GetChain(), len(row.GetChains()))
		}
		next = endOf(ref)
	}
	if next != row.GetEnd() {
		return fmt.Errorf("its refs end at %d", next)
	}
	return nil
}

func endOf(ref *novav1.Ref) uint64 { return ref.GetBase() + uint64(ref.GetCount()) }

// group is a run of refs in one flight that one read serves.
type group struct {
	chain string
	refs  []*novav1.Ref
	done  chan struct{}
	data  [][]byte
	err   error
}

// scanRefs reads groups of a checked row's refs ahead, and visits their batches from the one that holds
// next to the one that reaches to. It returns where the last visited one ends.
func scanRefs(ctx context.Context, r *Reader, row *novav1.SegmentRow, next, to uint64, visit func(ScanBatch) error) (uint64, error) {
	var reads sync.WaitGroup
	defer reads.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait above

	refs := row.GetRefs()
	for endOf(refs[0]) <= next {
		refs = refs[1:]
	}
	var ahead []*group
	for next < to && (len(refs) > 0 || len(ahead) > 0) {
		for len(refs) > 0 && refs[0].GetBase() < to && len(ahead) < readAhead {
			n := groupOf(refs, to)
			g := &group{chain: row.GetChains()[refs[0].GetChain()], refs: refs[:n], done: make(chan struct{})}
			refs, ahead = refs[n:], append(ahead, g)
			reads.Go(func() { g.read(ctx, r) })
		}
		g := ahead[0]
		ahead = ahead[1:]
		select {
		case <-g.done:
		case <-ctx.Done():
			return next, ctx.Err()
		}
		if g.err != nil {
			return next, g.err
		}
		for i, ref := range g.refs {
			if err := visit(ScanBatch{Base: ref.GetBase(), Count: ref.GetCount(), CRC: ref.GetCrc32C(), Records: g.data[i]}); err != nil {
				return next, err
			}
			next = endOf(ref)
		}
	}
	return next, nil
}

// groupOf counts the refs at the front, below sequence to, that lie close together in one flight.
func groupOf(refs []*novav1.Ref, to uint64) int {
	first := refs[0]
	n, wanted := 1, uint64(first.GetLength())
	for ; n < len(refs) && refs[n].GetBase() < to; n++ {
		ref := refs[n]
		wanted += uint64(ref.GetLength())
		span := ref.GetOffset() + uint64(ref.GetLength()) - first.GetOffset()
		if ref.GetChain() != first.GetChain() || ref.GetSlot() != first.GetSlot() || ref.GetOffset() < first.GetOffset() || span > pieceBytes || span > 2*wanted {
			break
		}
	}
	return n
}

func (g *group) read(ctx context.Context, r *Reader) {
	defer close(g.done)
	pieces := make([]Piece, len(g.refs))
	for i, ref := range g.refs {
		pieces[i] = pieceOf(ref)
	}
	g.data, g.err = r.Pieces(ctx, g.chain, g.refs[0].GetSlot(), pieces)
}
