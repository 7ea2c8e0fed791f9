package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/lifecycle"
)

// absorb is one pass over a chain: publish segments for the streams that are due, then move the floor
// past every slot whose batches are all covered.
//
// The floor passes a slot only on what a head says, never on what this star intends: covered never
// falls, and a deleted head stays deleted, so an answer once read stays true. A crash between a segment
// and the floor leaves a floor that is too low, which costs the next fencer a longer walk and nothing
// else.
func (inc *incarnation) absorb(ctx context.Context, c *chain) error {
	cfg := inc.star.cfg
	for _, id := range c.due(time.Now(), cfg.AbsorbAge, cfg.AbsorbRefs) {
		if st := inc.find(id); st != nil {
			if err := st.absorb(ctx); err == nil {
				continue
			} else if !errors.Is(err, errNotLeading) {
				inc.star.log.Warn("not absorbed yet", "stream", st.name, "id", id, "err", err)
				continue
			}
		}
		if err := inc.reconcile(ctx, c, id); err != nil {
			inc.star.log.Warn("not reconciled yet", "id", id, "err", err)
		}
	}
	return c.advanceFloor(ctx, inc.star.fleet.Rows().Lingering())
}

// absorb publishes what this leadership has committed and not yet covered.
func (s *stream) absorb(ctx context.Context) error {
	s.mu.Lock()
	leads, e := s.state.Phase.Leads(), s.epoch
	s.mu.Unlock()
	if !leads {
		return errNotLeading
	}
	head, err := s.guard.Publish(ctx, epoch.Publication{Epoch: e, Class: s.class, Batches: s.chain.batchesOf(s.id, e), Producers: s.producers})
	switch {
	case errors.Is(err, epoch.ErrDeposed), errors.Is(err, epoch.ErrDeleted):
		s.depose(err)
		return nil
	case err != nil:
		return err
	}
	s.chain.covered(s.id, head)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == e {
		s.covered = max(s.covered, head.GetCovered())
	}
	return nil
}

// reconcile looks after a stream that still has batches in this chain's un-absorbed part and is not led
// here any more: its head may have covered them since, or have gone; or this chain is still its holder,
// without a leadership, and then this star settles it as soon as nobody holds its lease.
func (inc *incarnation) reconcile(ctx context.Context, c *chain, id string) error {
	head, err := inc.star.readHead(ctx, id)
	if err != nil {
		return err
	}
	c.covered(id, head)
	if head.GetDeleted() || head.GetHolder().GetChain() != c.name || epoch.CleanlyReleased(head) {
		return nil
	}
	if _, err := inc.star.fleet.Leases().Holder(ctx, id); err == nil {
		return nil
	} else if !errors.Is(err, coord.ErrNotFound) {
		return fmt.Errorf("read the lease of %s: %w", id, err)
	}
	return inc.star.settle(ctx, &novav1.NameRow{Id: id, Mode: head.GetMode(), Class: head.GetClass()})
}

// absorbLoop runs the passes of one incarnation until it ends. A lost chain row ends the incarnation.
func (inc *incarnation) absorbLoop(ctx context.Context) {
	for sleep(ctx, inc.star.cfg.AbsorbInterval) {
		for _, c := range inc.chains {
			switch err := inc.absorb(ctx, c); {
			case errors.Is(err, errChainSealed):
				inc.star.deposed(inc, err)
				return
			case err != nil && ctx.Err() == nil:
				inc.star.log.Warn("the floor was not moved", "chain", c.name, "err", err)
			}
		}
	}
}

// departAll begins the departure of everything that is led here and waits for it, at most until ctx
// ends. It returns how many streams were left.
func (inc *incarnation) departAll(ctx context.Context, reason lifecycle.Reason, parallel int) int {
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, st := range inc.all() {
		group.Go(func() error {
			if d := st.leave(ctx, reason); d != nil {
				return d.wait(ctx)
			}
			return nil
		})
	}
	_ = group.Wait() // what is left is counted
	return len(inc.all())
}

// leave departs for reason from whatever the stream is at, waiting for a gate to end first.
func (s *stream) leave(ctx context.Context, reason lifecycle.Reason) *departure {
	for {
		d, claimed := s.depart(newDeparture(reason))
		if claimed || d != nil {
			return d
		}
		_, g, _ := s.standing()
		if g == nil {
			return nil
		}
		if err := g.wait(ctx); err != nil {
			return nil
		}
	}
}
