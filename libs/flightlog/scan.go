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
// everything must be covered. The first batch may begin below from.
func Scan(ctx context.Context, r *Reader, rows segments, id string, from, to uint64, visit func(ScanBatch) error) error {
	for next := from; next < to; {
		row, err := rows.Floor(ctx, id, next)
		if err != nil {
			return fmt.Errorf("find the segment of %s that holds sequence %d: %w", id, next, err)
		}
		if row.GetBase() > next || row.GetEnd() <= next {
			return fmt.Errorf("the segment [%d, %d) of %s does not hold sequence %d, which is covered", row.GetBase(), row.GetEnd(), id, next)
		}
		refs := row.GetRefs()
		for len(refs) > 0 && refs[0].GetBase()+uint64(refs[0].GetCount()) <= next {
			refs = refs[1:]
		}
		if next, err = scanRefs(ctx, r, row.GetChains(), refs, next, to, visit); err != nil {
			return fmt.Errorf("segment [%d, %d) of %s: %w", row.GetBase(), row.GetEnd(), id, err)
		}
	}
	return nil
}

// group is a run of refs in one flight that one read serves.
type group struct {
	chain string
	refs  []*novav1.Ref
	done  chan struct{}
	data  [][]byte
	err   error
}

// scanRefs reads groups of refs ahead, in order, and visits their batches.
func scanRefs(ctx context.Context, r *Reader, chains []string, refs []*novav1.Ref, next, to uint64, visit func(ScanBatch) error) (uint64, error) {
	var ahead []*group
	var reads sync.WaitGroup
	defer reads.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait above
	for next < to && (len(refs) > 0 || len(ahead) > 0) {
		for len(refs) > 0 && len(ahead) < readAhead {
			g, n, err := nextGroup(chains, refs)
			if err != nil {
				return next, err
			}
			refs = refs[n:]
			ahead = append(ahead, g)
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
			if next >= to {
				break
			}
			if ref.GetBase() > next {
				return next, fmt.Errorf("its refs go on at %d where %d comes next", ref.GetBase(), next)
			}
			if err := visit(ScanBatch{Base: ref.GetBase(), Count: ref.GetCount(), CRC: ref.GetCrc32C(), Records: g.data[i]}); err != nil {
				return next, err
			}
			next = ref.GetBase() + uint64(ref.GetCount())
		}
	}
	return next, nil
}

// nextGroup takes the refs from the front that lie close together in one flight.
func nextGroup(chains []string, refs []*novav1.Ref) (*group, int, error) {
	first := refs[0]
	if int(first.GetChain()) >= len(chains) {
		return nil, 0, fmt.Errorf("a ref names chain %d of %d", first.GetChain(), len(chains))
	}
	n, wanted := 1, uint64(first.GetLength())
	for ; n < len(refs); n++ {
		ref := refs[n]
		wanted += uint64(ref.GetLength())
		span := ref.GetOffset() + uint64(ref.GetLength()) - first.GetOffset()
		if ref.GetChain() != first.GetChain() || ref.GetSlot() != first.GetSlot() || ref.GetOffset() < first.GetOffset() || span > pieceBytes || span > 2*wanted {
			break
		}
	}
	return &group{chain: chains[first.GetChain()], refs: refs[:n], done: make(chan struct{})}, n, nil
}

func (g *group) read(ctx context.Context, r *Reader) {
	defer close(g.done)
	pieces := make([]Piece, len(g.refs))
	for i, ref := range g.refs {
		pieces[i] = Piece{Offset: ref.GetOffset(), Length: ref.GetLength(), CRC: ref.GetCrc32C()}
	}
	g.data, g.err = r.Pieces(ctx, g.chain, g.refs[0].GetSlot(), pieces)
}
