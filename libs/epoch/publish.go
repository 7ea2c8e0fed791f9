package epoch

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// SegmentRefs bounds the refs of one segment row, so that a row stays well below Oxia's 128 KiB.
const SegmentRefs = 1024

// Publication is what one leadership (or one gate) brings into the head: refs, and with the last of them
// at most one more fact.
type Publication struct {
	Epoch   uint64 // of the publisher: it must stand in the head
	Class   novav1.Class
	Batches []Batch // dense, from at or below the head's covered on; what is covered already is skipped
	// Producers is the idempotence table as of a sequence, for the segment that ends there.
	Producers func(end uint64) []*novav1.ProducerState

	Mark      bool              // Finish: leave the clean-release mark with the last set
	Successor *novav1.Successor // handoff: whom the mark's set names
	Pass      *novav1.Holder    // gate: become the holder with the last set
}

// Publish commits p: segment rows first, each made visible by one compare-and-set of the head. It
// returns the head that stands afterwards.
//
// A segment row lies at key `covered` before the head names it, so a crash between the two leaves an
// orphan there. The next publisher of the same epoch adopts it as it is: the lost compare-and-set may
// still land, and must then find the very row it names. An orphan of an older epoch is overwritten at its
// exact version, which is safe because the epoch in the head has voided every write of that epoch.
//
// A publication is repeatable: after an error of unknown outcome the same call, or one with more
// batches, goes on from whatever landed. ErrDeposed and ErrDeleted are final.
func (g *Guard) Publish(ctx context.Context, p Publication) (*novav1.HeadRow, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if g.head == nil {
			if err := g.load(ctx); err != nil {
				return nil, err
			}
		}
		if err := mayPublish(g.head, p.Epoch); err != nil {
			return nil, err
		}
		rest := above(p.Batches, g.head.GetCovered())
		if len(rest) == 0 && p.stands(g.head) {
			return proto.CloneOf(g.head), nil
		}
		base := g.head.GetCovered()
		if len(rest) > 0 && rest[0].Base != base {
			return nil, fmt.Errorf("publish %s at %d, the next batch begins at %d: %w", g.id, base, rest[0].Base, ErrGap)
		}
		end := base
		if len(rest) > 0 {
			var err error
			if end, err = g.putSegment(ctx, p, rest[:min(len(rest), SegmentRefs)]); err != nil {
				return nil, err
			}
		}
		final := len(above(rest, end)) == 0
		_, err := g.update(ctx, func(h *novav1.HeadRow) (*novav1.HeadRow, error) {
			if err := mayPublish(h, p.Epoch); err != nil {
				return nil, err
			}
			if h.GetCovered() != base {
				return nil, nil // an own set of before has landed after all: look again
			}
			return p.apply(h, end, final), nil
		})
		if err != nil {
			return nil, err
		}
	}
}

func mayPublish(h *novav1.HeadRow, epoch uint64) error {
	switch {
	case h.GetDeleted():
		return ErrDeleted
	case h.GetEpoch() != epoch:
		return fmt.Errorf("publish at epoch %d, the head is at %d: %w", epoch, h.GetEpoch(), ErrDeposed)
	}
	return nil
}

// stands says whether h already carries all that p brings beside its batches.
func (p Publication) stands(h *novav1.HeadRow) bool {
	if p.Pass != nil && h.GetHolder().GetEpoch() != p.Epoch {
		return false
	}
	return !p.Mark || CleanlyReleased(h)
}

func (p Publication) apply(h *novav1.HeadRow, end uint64, final bool) *novav1.HeadRow {
	published := end > h.GetCovered()
	last := &novav1.LastSegment{Base: h.GetCovered(), End: end, Epoch: p.Epoch}
	if !published && h.Last != nil { // nothing resident: the mark goes on the last segment
		last.Base = h.Last.GetBase()
	}
	h.Covered = end
	if final {
		if p.Pass != nil {
			pass(h, p.Pass)
		}
		last.CleanRelease = p.Mark
		if p.Mark {
			h.Successor = p.Successor
		}
	}
	if published || final && p.Mark {
		h.Last = last
	}
	return h
}

// putSegment lays the row for batches at key covered and returns where the row that lies there ends.
func (g *Guard) putSegment(ctx context.Context, p Publication, batches []Batch) (uint64, error) {
	base := g.head.GetCovered()
	key := coord.SegmentKey(g.id, base)
	row := p.segment(base, batches)
	at := coord.Absent
	for {
		_, err := g.rows.Put(ctx, key, row, at)
		if err == nil {
			return row.GetEnd(), nil
		}
		if !errors.Is(err, coord.ErrConflict) {
			return 0, fmt.Errorf("lay segment %d of %s: %w", base, g.id, err)
		}
		orphan := &novav1.SegmentRow{}
		at, err = g.rows.Get(ctx, key, orphan)
		switch {
		case errors.Is(err, coord.ErrNotFound):
			at = coord.Absent
		case err != nil:
			return 0, fmt.Errorf("read the orphan at segment %d of %s: %w", base, g.id, err)
		case orphan.GetEpoch() == p.Epoch:
			return orphan.GetEnd(), nil
		case orphan.GetEpoch() > p.Epoch:
			return 0, fmt.Errorf("segment %d of %s is of epoch %d: %w", base, g.id, orphan.GetEpoch(), ErrDeposed)
		}
	}
}

func (p Publication) segment(base uint64, batches []Batch) *novav1.SegmentRow {
	row := &novav1.SegmentRow{Base: base, End: batches[len(batches)-1].End(), Epoch: p.Epoch, Class: p.Class}
	chains := map[string]uint32{}
	for _, b := range batches {
		index, ok := chains[b.Chain]
		if !ok {
			index = uint32(len(row.Chains))
			chains[b.Chain] = index
			row.Chains = append(row.Chains, b.Chain)
		}
		row.Refs = append(row.Refs, &novav1.Ref{Chain: index, Slot: b.Slot, Offset: b.Offset, Length: b.Length, Base: b.Base, Count: b.Count, Crc32C: b.CRC})
	}
	if p.Producers != nil {
		row.Producers = p.Producers(row.End)
	}
	return row
}

// above is the part of dense batches that ends above sequence covered.
func above(batches []Batch, covered uint64) []Batch {
	for len(batches) > 0 && batches[0].End() <= covered {
		batches = batches[1:]
	}
	return batches
}
