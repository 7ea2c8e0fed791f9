package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/events"
)

const (
	concludeEvery = 500 * time.Millisecond
	concludeFor   = 2 * time.Minute // then whoever audits finds a decision without an end, and the rows
)

// conclude tells the end of a handoff whose leader answered with less than its last word, in case that
// leader does not live to tell it itself.
//
//	the target has opened by this order    finished
//	the leader's incarnation lives         it tells the end; wait
//	it is gone                             after takeWait, in which its last Take may still pass: failed
//
// A leader that told the end just before it died is no matter: both events have one id, and the first
// is kept.
func (g *Gateway) conclude(name *novav1.NameRow, incarnation string, order events.Handoff, cause error) {
	ctx, cancel := context.WithTimeout(g.ctx, concludeFor)
	defer cancel()
	tick := time.NewTicker(concludeEvery)
	defer tick.Stop()
	var gone time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		taken, err := g.takenBy(ctx, name.GetId(), order)
		switch {
		case err != nil: // look again
		case taken > 0:
			order.Taken = taken
			g.tell(events.HandoffFinished, name, order)
			return
		case !gone.IsZero() && time.Since(gone) > g.cfg.takeWait:
			order.Error = fmt.Sprintf("star %s went away before it told the end: %v", order.From, cause)
			g.tell(events.HandoffFailed, name, order)
			return
		case gone.IsZero() && g.departed(ctx, order.From, incarnation):
			gone = time.Now()
		}
	}
}

// takenBy is the epoch at which the order's target opened the stream, 0 for never yet. The head tells of
// its holder; when others have led since, the epoch's own record does.
func (g *Gateway) takenBy(ctx context.Context, id string, order events.Handoff) (uint64, error) {
	head, err := g.readHead(ctx, id)
	if err != nil {
		return 0, err
	}
	if taken(head.GetHolder(), order) {
		return head.GetHolder().GetEpoch(), nil
	}
	row := &novav1.EpochRow{}
	_, err = g.fleet.Rows().Get(ctx, coord.EpochKey(id, order.Epoch+1), row)
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return 0, err
	}
	if taken(row, order) {
		return row.GetEpoch(), nil
	}
	return 0, nil
}

// taken says whether an epoch that stands is the order's outcome: it carries the order's name, or is the
// target's next one over the source's mark, which a producer may have opened just before the order came.
func taken(e interface {
	GetEpoch() uint64
	GetStar() string
	GetHandoff() string
	GetCoverage() novav1.Coverage
}, order events.Handoff) bool {
	if e.GetCoverage() == novav1.Coverage_COVERAGE_ABANDONED {
		return false
	}
	return e.GetHandoff() == order.ID || e.GetStar() == order.To && e.GetEpoch() == order.Epoch+1 && e.GetCoverage() == novav1.Coverage_COVERAGE_CLEAN
}

// departed says that the star's incarnation has no liveness row, by a read of now.
func (g *Gateway) departed(ctx context.Context, star, incarnation string) bool {
	row, err := g.fleet.Registry().Star(ctx, star)
	if errors.Is(err, coord.ErrNotFound) {
		return true
	}
	return err == nil && row.GetIncarnation() != incarnation
}
