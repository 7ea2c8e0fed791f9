package epoch

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// ErrUndecided: too few copies answer to decide a slot. Waiting may resolve it, guessing never.
var ErrUndecided = errors.New("a slot of the chain is undecided: too few copies answer, or their votes are split")

// slots is what a fencer needs of the copies of one chain.
type slots interface {
	// Committed returns a slot below which every slot from floor on is known to be committed, by what the
	// writer noted in its flights. It may be as low as floor.
	Committed(ctx context.Context, floor uint64) (uint64, error)
	Vote(ctx context.Context, slot uint64) (Votes, error)
	// Complete copies the slot's flight to the copies where the slot is empty.
	Complete(ctx context.Context, slot uint64) error
	// Poison puts a poison on the copies where the slot is empty.
	Poison(ctx context.Context, slot uint64) error
}

// surveyEvery is after how many decided slots a fencer asks again how far the writer has come.
const surveyEvery = 16

// triesPerSlot bounds how often a fencer acts on one slot before it says that it is undecided.
const triesPerSlot = 4

// Fence ends chain: after it returns, no slot at or above the returned row's seal ever counts, and every
// slot below it stands on a quorum. The chain's incarnation must have no liveness row, by a fresh read.
//
// The walk begins at the chain row's floor and ends at the first slot that no flight can win; that slot
// is poisoned on a quorum of copies, and only then one compare-and-set of the chain row, at the version
// whose floor was read, makes it the seal. Until that set the poison means nothing: a writer that was
// still moving may have passed the floor over it, in which case the set fails and the walk starts again.
//
// A crash leaves at worst a half-made completion or poison, and the next fencer votes on what it finds.
// A lost answer of the set is resolved by reading the row: two fencers that walked the same chain found
// the same seal, since a poison on a quorum cannot be overwritten.
func Fence(ctx context.Context, rows rows, chain string, class novav1.Class, copies slots) (*novav1.ChainRow, error) {
	key := coord.ChainKey(chain)
	for {
		row := &novav1.ChainRow{}
		version, err := rows.Get(ctx, key, row)
		switch {
		case errors.Is(err, coord.ErrNotFound):
			// The row is made before the chain's first gate, so nothing can lie in the chain.
			row, version = &novav1.ChainRow{Chain: chain, Class: class}, coord.Absent
		case err != nil:
			return nil, fmt.Errorf("read the row of chain %s: %w", chain, err)
		case row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN:
			return row, nil
		}
		seal := row.GetFloor()
		if version != coord.Absent {
			if seal, err = walk(ctx, row.GetFloor(), copies); err != nil {
				return nil, fmt.Errorf("fence chain %s: %w", chain, err)
			}
		}
		sealed := proto.CloneOf(row)
		sealed.State, sealed.Seal = novav1.ChainState_CHAIN_STATE_SEALED, seal
		_, err = rows.Put(ctx, key, sealed, version)
		switch {
		case err == nil:
			return sealed, nil
		case errors.Is(err, coord.ErrConflict), errors.Is(err, coord.ErrUnknown):
			continue // the writer moved its floor, another fencer was first, or this set has landed
		}
		return nil, fmt.Errorf("seal chain %s at slot %d: %w", chain, seal, err)
	}
}

// walk returns the first slot that is poisoned on a quorum, making it so.
func walk(ctx context.Context, floor uint64, copies slots) (uint64, error) {
	slot, err := copies.Committed(ctx, floor)
	if err != nil {
		return 0, err
	}
	slot = max(slot, floor)
	for tries, run := 0, 0; ; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		votes, err := copies.Vote(ctx, slot)
		if err != nil {
			return 0, fmt.Errorf("slot %d: %w", slot, err)
		}
		verdict := Judge(votes)
		switch verdict {
		case Decided:
			slot, tries, run = slot+1, 0, run+1
			if run%surveyEvery == 0 { // the writer moves on: catch up instead of voting on each slot
				known, err := copies.Committed(ctx, slot)
				if err != nil {
					return 0, err
				}
				slot = max(slot, known)
			}
			continue
		case Tail:
			return slot, nil
		case Wait:
			return 0, fmt.Errorf("slot %d, votes %+v: %w", slot, votes, ErrUndecided)
		}
		if tries++; tries > triesPerSlot {
			return 0, fmt.Errorf("slot %d, votes %+v after %d tries: %w", slot, votes, tries-1, ErrUndecided)
		}
		act := copies.Complete
		if verdict == Poison {
			act = copies.Poison
		}
		// What could not be put shows in the next vote.
		_ = act(ctx, slot)
	}
}
