package star

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/copystats"
	"nova.internal/libs/placement"
)

// Repair of the copies: what reads and writers met goes through each class's queue; what nobody reads is
// looked at by the scrub, each chain by one star.
//
//	reader, writer ─▶ Repairer's queue ─▶ Run ─┐
//	scrubLoop ─▶ chain rows ─▶ Scrub ──────────┴▶ look at every copy, plan, write, read back

// newRepairers makes one repairer a class. The copies are opened after them.
func newRepairers(s *Star) (map[novav1.Class]*flightlog.Repairer, error) {
	repairers := map[novav1.Class]*flightlog.Repairer{}
	report, err := copystats.NewRepairs(s.report.env.Metrics, s.log, func() (n int) {
		for _, r := range repairers {
			n += r.Waiting()
		}
		return n
	})
	for _, class := range []novav1.Class{novav1.Class_CLASS_STANDARD, novav1.Class_CLASS_EXPRESS} {
		repairers[class] = flightlog.NewRepairer(func() *flightlog.Copies { return s.copies[class] }, report)
	}
	return repairers, err
}

// scrubLoop looks at every flight of this star's chains once an interval, and at once when a queue of
// repairs has lost sight of some. The first pass begins at any time within the interval, so that stars
// that started together do not read together.
func (s *Star) scrubLoop(ctx context.Context) {
	interval := s.cfg.ScrubInterval
	if interval <= 0 {
		return
	}
	for wait := rand.N(interval); ; wait = interval {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.repairers[novav1.Class_CLASS_STANDARD].Overflowed():
		case <-s.repairers[novav1.Class_CLASS_EXPRESS].Overflowed():
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		if err := s.scrub(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the copies were not looked at in full", "err", err)
		}
	}
}

// scrub is one pass over the chains that are this star's to look after. Their order is chance, so that
// passes that are broken off reach each chain in time.
func (s *Star) scrub(ctx context.Context) error {
	var rows []*novav1.ChainRow
	err := s.fleet.Rows().Chains(ctx, func(row *novav1.ChainRow) error {
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	began, total := time.Now(), flightlog.Scrubbed{}
	var last error
	for _, row := range rows {
		if scrubber(row.GetChain(), s.cfg.Star, s.fleet.Registry().Snapshot()) != s.cfg.Star {
			continue
		}
		done, err := s.repairers[row.GetClass()].Scrub(ctx, row.GetChain(), 0, s.decidedBelow(row), int64(s.cfg.ScrubBytes))
		total.Slots, total.Bytes, total.Mended, total.Unmended = total.Slots+done.Slots, total.Bytes+done.Bytes, total.Mended+done.Mended, total.Unmended+done.Unmended
		if err != nil {
			last = err
		}
	}
	s.report.scrubbed(total, time.Since(began))
	return last
}

// scrubber is the star that looks after a chain's copies: the one that wrote it, or, when that one is not
// there, the living star with the highest score. Two stars that see different fleets may both do it, which
// costs a second reading.
func scrubber(chain, self string, fleet *coord.Snapshot) string {
	owner := starOf(chain)
	if _, lives := fleet.Member(owner); lives || owner == self {
		return owner
	}
	best, high := "", uint64(0)
	for _, m := range fleet.Stars {
		if score := placement.Score(m.Star.GetStar(), chain); best == "" || score > high {
			best, high = m.Star.GetStar(), score
		}
	}
	return best
}

// decidedBelow is the slot below which every slot of the chain holds a flight for good: the seal, or the
// floor; and of a chain that this star writes, what its writer has committed.
func (s *Star) decidedBelow(row *novav1.ChainRow) uint64 {
	if row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
		return row.GetSeal()
	}
	if c := s.current().chainNamed(row.GetChain()); c != nil {
		return max(row.GetFloor(), c.writer.State().Committed)
	}
	return row.GetFloor()
}
