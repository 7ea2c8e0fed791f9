package star

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/dedupe"
)

// scanOwn finds the holder's records in this incarnation's own flight index: the holder was an earlier
// leadership here whose release never landed. It refuses the older epochs first (the new epoch in the
// head, and no leadership here), then waits until every own flight with this stream is decided.
func (s *stream) scanOwn(ctx context.Context, g *gate, head *novav1.HeadRow, claim string) (*passage, error) {
	me := s.me(g)
	me.Coverage = novav1.Coverage_COVERAGE_OWN_INDEX
	head, err := s.mint(ctx, g, head, func(h *novav1.HeadRow) *novav1.HeadRow { return epoch.Begin(h, me, claim) })
	if err != nil {
		return nil, err
	}
	if err := s.chain.awaitDecided(ctx, s.id); err != nil {
		return nil, err
	}
	return s.recover(ctx, me, head, s.chain.batches(s.id))
}

// fenceAndScan ends the dead holder's chain and finds its records there.
func (s *stream) fenceAndScan(ctx context.Context, g *gate, head *novav1.HeadRow, claim string) (*passage, error) {
	me := s.me(g)
	me.Coverage = novav1.Coverage_COVERAGE_RECOVERED
	head, err := s.mint(ctx, g, head, func(h *novav1.HeadRow) *novav1.HeadRow { return epoch.Begin(h, me, claim) })
	if err != nil {
		return nil, err
	}
	dead, err := s.inc.star.graves.open(ctx, head.GetHolder().GetChain())
	if err != nil {
		return nil, err
	}
	return s.recover(ctx, me, head, dead.batches(s.id))
}

// recover publishes what evidence shows above covered and becomes the holder with the last set.
func (s *stream) recover(ctx context.Context, me *novav1.Holder, head *novav1.HeadRow, found []epoch.Batch) (*passage, error) {
	dense, err := epoch.Dense(found, head.GetCovered(), head.GetHolder().GetEpoch())
	if err != nil {
		s.inc.star.report.gap(s, err)
		return nil, unavailable(novav1.Unavailable_REASON_LIMBO, err.Error())
	}
	table, err := s.tableBelow(ctx, head.GetCovered())
	if err != nil {
		return nil, err
	}
	me.Epoch = head.GetEpoch()
	after, err := s.guard.Publish(ctx, epoch.Publication{
		Epoch: head.GetEpoch(), Class: s.class, Batches: dense, Pass: me,
		Producers: func(end uint64) []*novav1.ProducerState { return replay(table, dense, end).Snapshot(end) },
	})
	switch {
	case errors.Is(err, epoch.ErrDeposed):
		return nil, unavailable(novav1.Unavailable_REASON_OVERTAKEN, err.Error())
	case errors.Is(err, epoch.ErrDeleted):
		return nil, fmt.Errorf("open %s: %w", s.name, api.ErrUnknownStream)
	case err != nil:
		return nil, err
	}
	return s.passed(ctx, after, head, after.GetCovered()-head.GetCovered())
}

// passed reads what the new leadership starts from: the idempotence table of the last segment.
func (s *stream) passed(ctx context.Context, head, before *novav1.HeadRow, recovered uint64) (*passage, error) {
	table, err := s.tableBelow(ctx, head.GetCovered())
	if err != nil {
		return nil, err
	}
	return &passage{head: head, before: before, table: table, coverage: head.GetHolder().GetCoverage(), recovered: recovered}, nil
}

// tableBelow is the idempotence table as of sequence covered.
func (s *stream) tableBelow(ctx context.Context, covered uint64) ([]*novav1.ProducerState, error) {
	if covered == 0 {
		return nil, nil
	}
	row := &novav1.SegmentRow{}
	_, _, err := s.inc.star.fleet.Rows().Floor(ctx, coord.SegmentKey(s.id, covered-1), row)
	if err != nil {
		return nil, fmt.Errorf("read the last segment of %s: %w", s.name, err)
	}
	return row.GetProducers(), nil
}

// replay is the table of a segment with the batches above it that end by end.
func replay(table []*novav1.ProducerState, batches []epoch.Batch, end uint64) *dedupe.Table {
	var t dedupe.Table
	t.Load(table)
	for _, b := range batches {
		if b.Producer != "" && b.End() <= end {
			t.Commit(b.Producer, dedupe.Batch{Number: b.Number, Base: b.Base, Count: b.Count})
		}
	}
	return &t
}
