package star

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/libs/coord"
	"nova.internal/services/sequencer/star/lifecycle"
)

// sweepLoop holds the leases that stand in this star's name against what it leads, now and then.
func (s *Star) sweepLoop(ctx context.Context) {
	for sleep(ctx, s.cfg.SweepInterval) {
		if err := s.sweepLeases(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, coord.ErrNotRegistered) {
			s.log.Warn("the leases in this star's name were not looked through", "err", err)
		}
	}
}

// sweepLeases releases each own lease that has neither a leadership nor a departure nor a gate behind it,
// and puts back each that a leadership misses.
//
// The first are orphans of acquisitions whose answer was lost. The gate heals one at the next open
// (specification, "The gate heals leaks"); this is for streams that nobody opens. A release is by the
// version listed, so a lease that was healed or taken since stays. The second went when Oxia removed the
// rows of an expired session late, by a list that it had made before this star registered again.
func (s *Star) sweepLeases(ctx context.Context) error {
	inc := s.current()
	// What is led is noted first: a leadership that begins after this is in neither list, and one that
	// ends meanwhile is found to have ended by reclaim.
	led := map[string]*stream{}
	for _, st := range inc.all() {
		if e, _, _ := st.standing(); e != 0 {
			led[st.id] = st
		}
	}
	own, err := s.fleet.Leases().Own(ctx)
	if err != nil {
		return fmt.Errorf("list the leases of star %s: %w", s.cfg.Star, err)
	}
	for _, lease := range own {
		delete(led, lease.ID)
		if lease.Row.GetIncarnation() != inc.id || !inc.orphan(lease.ID) {
			continue
		}
		if err := s.fleet.Leases().Release(ctx, lease); err != nil {
			return fmt.Errorf("release the orphaned lease of stream %s: %w", lease.ID, err)
		}
		s.report.orphanReleased(lease)
	}
	for _, st := range led {
		if err := st.reclaim(ctx); err != nil {
			return err
		}
	}
	return nil
}

// orphan says whether nothing of this incarnation stands behind a lease of the stream.
func (inc *incarnation) orphan(id string) bool {
	st := inc.find(id)
	if st == nil {
		return true
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.state.Phase == lifecycle.Vacant
}
