package star

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/lifecycle"
)

// watchSession brings the star back into the fleet whenever its session was lost: the fleet has declared
// it dead, its leases are gone, and its chains may be sealed by now. It serves what it leads all the
// while, because what keeps a stale writer out is the seal and the epoch, not the session.
func (s *Star) watchSession(ctx context.Context) {
	for {
		select {
		case <-s.registration.Load().Lost():
		case <-ctx.Done():
			return
		}
		s.log.Warn("the session was lost; registering again")
		for pause := retryFirst; ; pause = min(2*pause, retryMost) {
			err := s.rejoin(ctx)
			if err == nil {
				break
			}
			s.log.Warn("not registered again yet", "err", err)
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

// rejoin registers with the same incarnation, so that its unfinished chains go on where no fencer came.
// It reads the chain rows after its liveness row stands: a fencer that starts now sees the row, one that
// started before has sealed, or will find the seal's compare-and-set lost to nobody and poison what this
// star then meets as a lost slot.
func (s *Star) rejoin(ctx context.Context) error {
	if err := s.fleet.Reconnect(ctx); err != nil {
		return err
	}
	row := proto.CloneOf(s.registration.Load().Row())
	inc := s.current()
	row.Incarnation = inc.id
	reg, err := s.fleet.Register(ctx, row)
	if err != nil {
		return fmt.Errorf("register star %s again: %w", s.cfg.Star, err)
	}
	s.registration.Store(reg)
	for _, c := range inc.chains {
		chain := &novav1.ChainRow{}
		if _, err := s.fleet.Rows().Get(ctx, coord.ChainKey(c.name), chain); err != nil {
			return fmt.Errorf("read the row of chain %s: %w", c.name, err)
		}
		if chain.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
			s.deposed(inc, fmt.Errorf("chain %s: %w", c.name, errChainSealed))
			return nil
		}
	}
	for _, st := range inc.all() {
		if err := st.reclaim(ctx); err != nil {
			return err
		}
	}
	s.report.joined(inc)
	return nil
}

// reclaim puts back the lease of a leadership that its head still names. Where another star has taken
// the lease meanwhile, the leadership finishes; where the head has moved on, it is over.
func (s *stream) reclaim(ctx context.Context) error {
	e, _, _ := s.standing()
	if e == 0 {
		return nil
	}
	head, err := s.inc.star.readHead(ctx, s.id)
	if err != nil {
		return err
	}
	if head.GetHolder().GetEpoch() != e || head.GetEpoch() != e {
		s.depose(epoch.ErrDeposed)
		return nil
	}
	leases := s.inc.star.fleet.Leases()
	lease, err := leases.Acquire(ctx, s.id, false)
	var held *coord.HeldError
	if errors.As(err, &held) {
		s.depart(newDeparture(lifecycle.Handoff))
		return nil
	}
	if err != nil {
		return fmt.Errorf("put back the lease of %s: %w", s.name, err)
	}
	s.mu.Lock()
	stands := s.state.Phase != lifecycle.Vacant && !s.forgotten && s.epoch == e
	if stands {
		s.lease, s.leased = lease, true
	}
	s.mu.Unlock()
	if !stands { // it departed meanwhile, and has released the lease of before
		return leases.Release(ctx, lease)
	}
	return nil
}
