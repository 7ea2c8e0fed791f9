package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/lifecycle"
)

// Settling brings a stream whose leader died to a clean mark, whether or not a producer ever returns: an
// open gate and a Finish, without handles. It is what makes acknowledged records readable after a crash,
// and what lets a dead chain's floor reach its seal.

// Settle settles one stream because a reader asks (novav1.StarServer).
func (s *Star) Settle(ctx context.Context, r *novav1.SettleRequest) (*novav1.SettleResponse, error) {
	name, err := s.lookup(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.settle(ctx, name); err != nil {
		return nil, refusal(err, "settle "+r.GetName())
	}
	return &novav1.SettleResponse{}, nil
}

// settle returns when the stream has a mark, or somebody leads it.
func (s *Star) settle(ctx context.Context, name *novav1.NameRow) error {
	for {
		head, err := s.readHead(ctx, name.GetId())
		if err != nil {
			return err
		}
		if head.GetDeleted() || head.GetHolder() == nil || epoch.CleanlyReleased(head) {
			return nil
		}
		st := s.stream(name)
		st.open(&gate{done: make(chan struct{}), fenced: name.GetMode() == novav1.Mode_MODE_FENCED, settling: true, trigger: "settle"})
		e, g, d := st.standing()
		switch {
		case e != 0: // a producer has come: the stream is served
			return nil
		case g != nil:
			err = g.wait(ctx)
			var other *api.NotOwnerError
			if errors.As(err, &other) || errors.Is(err, errSettled) { // it is led elsewhere, or done
				return nil
			}
		case d != nil:
			err = d.wait(ctx)
		}
		if err != nil {
			return err
		}
		if g != nil && g.settling {
			st.depart(newDeparture(lifecycle.Settled))
		}
	}
}

// settleChains looks after every chain that is neither settled nor of a living incarnation. One star at
// a time settles a chain, by its role row; the compare-and-sets arbitrate where that row lies.
func (s *Star) settleChains(ctx context.Context) error {
	var dead []*novav1.ChainRow
	err := s.fleet.Rows().Chains(ctx, func(row *novav1.ChainRow) error {
		if row.GetState() != novav1.ChainState_CHAIN_STATE_SETTLED {
			dead = append(dead, row)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	for _, row := range dead {
		holder := &novav1.Holder{Star: starOf(row.GetChain()), Chain: row.GetChain()}
		life, _, err := s.lifeOf(ctx, holder)
		if err != nil {
			return err
		}
		if life != epoch.Dead {
			continue
		}
		if err := s.settleChain(ctx, row.GetChain()); err != nil {
			s.log.Warn("chain not settled yet", "chain", row.GetChain(), "err", err)
		}
	}
	return nil
}

// settleChain seals one dead chain, settles every stream that still has records in it, and moves its
// floor to its seal. A crash at any step leaves the chain for the next round; nothing is done twice that
// matters, since each stream's mark and the chain's floor are compare-and-sets.
func (s *Star) settleChain(ctx context.Context, chain string) error {
	role, err := s.fleet.Roles().Claim(ctx, "settle/"+chain)
	if errors.Is(err, coord.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		defer cancel()
		if err := role.Release(ctx); err != nil {
			s.log.Debug("role not released; it ends with the session", "role", "settle/"+chain, "err", err)
		}
	}()
	began := time.Now()
	grave, err := s.graves.open(ctx, chain)
	if err != nil {
		return err
	}
	settled := 0
	for _, id := range grave.streams() {
		done, err := s.settleIn(ctx, id, chain, grave)
		if err != nil {
			return fmt.Errorf("stream %s: %w", id, err)
		}
		if done {
			settled++
		}
	}
	if err := s.closeChain(ctx, chain, grave.row.GetSeal()); err != nil {
		return err
	}
	s.report.chainSettled(chain, settled, time.Since(began))
	return nil
}

// settleIn makes sure that no record of the stream in the dead chain is still uncovered. It reports
// whether it had to do anything.
func (s *Star) settleIn(ctx context.Context, id, chain string, g *grave) (bool, error) {
	for worked := false; ; worked = true {
		head, err := s.readHead(ctx, id)
		if err != nil {
			return worked, err
		}
		if head.GetDeleted() || head.GetHolder() == nil || head.GetHolder().GetChain() != chain || head.GetCovered() >= g.end(id, head.GetHolder().GetEpoch()) {
			return worked, nil
		}
		if worked && epoch.CleanlyReleased(head) {
			return worked, nil
		}
		name := &novav1.NameRow{Id: id, Mode: head.GetMode(), Class: head.GetClass()}
		if err := s.settle(ctx, name); err != nil {
			return worked, err
		}
	}
}

// closeChain writes that everything below the seal is covered.
func (s *Star) closeChain(ctx context.Context, chain string, seal uint64) error {
	for {
		row := &novav1.ChainRow{}
		version, err := s.fleet.Rows().Get(ctx, coord.ChainKey(chain), row)
		if err != nil {
			return fmt.Errorf("read the row of chain %s: %w", chain, err)
		}
		if row.GetState() == novav1.ChainState_CHAIN_STATE_SETTLED {
			return nil
		}
		row.State, row.Floor = novav1.ChainState_CHAIN_STATE_SETTLED, seal
		if _, err = s.fleet.Rows().Put(ctx, coord.ChainKey(chain), row, version); err == nil {
			return nil
		} else if !errors.Is(err, coord.ErrConflict) {
			return fmt.Errorf("settle chain %s: %w", chain, err)
		}
	}
}
