package epoch

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// ErrOver: the chain has ended already.
var ErrOver = errors.New("the chain has ended already")

// Ruling is what becomes of a slot when a person's word may stand in for the copies that are away.
type Ruling string

const (
	// RulePlain: a quorum shows the flight.
	RulePlain Ruling = "plain"
	// RuleComplete: the flight is seen short of a quorum, and there is room to complete it.
	RuleComplete Ruling = "complete"
	// RuleCounts: the votes are split and a copy holds the flight whole, so it counts. Nothing that was
	// acknowledged can be lost by that: had the copy that is away voted otherwise, the seal would stand.
	RuleCounts Ruling = "counts"
	// RulePoison: a quorum answers and none of it shows a flight; the chain ends here.
	RulePoison Ruling = "poison"
	// RuleTail: poison stands on a quorum; the chain ends here.
	RuleTail Ruling = "tail"
	// RuleEnds: it cannot be known whether the slot's flight was acknowledged, and the chain ends here
	// because a person has accepted its loss.
	RuleEnds Ruling = "ends"
	// RuleStuck: as RuleEnds, without that word.
	RuleStuck Ruling = "stuck"
)

// Rule decides one slot as Judge does, and where that is to wait for ever, by what is safe, or by a
// person's word. whole says that a copy which answers holds the flight undamaged.
func Rule(v Votes, whole, acceptLoss bool) Ruling {
	switch verdict := Judge(v); {
	case verdict == Decided:
		return RulePlain
	case verdict == Poison:
		return RulePoison
	case verdict == Tail:
		return RuleTail
	case verdict == Complete && whole:
		return RuleComplete
	case whole:
		return RuleCounts
	case acceptLoss:
		return RuleEnds
	}
	return RuleStuck
}

// Word is what a person says about a chain that its fencers cannot end.
type Word struct {
	Apply      bool // else only what would be done is told
	AcceptLoss bool
}

// Ruled is one slot of a Decision.
type Ruled struct {
	Slot   uint64
	Ruling Ruling
	Votes  Votes
}

// Decision is how a chain ends, or would.
type Decision struct {
	Before  *novav1.ChainRow
	Seal    uint64
	Rulings []Ruled // of the slots that were not plain, in order; the last one ends the chain
	Applied bool
}

// Counted are the slots whose flight counts though its votes are split.
func (d Decision) Counted() (slots []uint64) {
	for _, r := range d.Rulings {
		if r.Ruling == RuleCounts {
			slots = append(slots, r.Slot)
		}
	}
	return slots
}

// End is the ruling that ends the chain.
func (d Decision) End() Ruling {
	if len(d.Rulings) == 0 {
		return ""
	}
	return d.Rulings[len(d.Rulings)-1].Ruling
}

// decidable is a chain's copies for a person's word.
type decidable interface {
	slots
	// Whole says whether a copy that answers holds the slot's flight undamaged.
	Whole(ctx context.Context, slot uint64) bool
}

// Decide ends a dead chain as Fence does, and goes on where Fence must wait: a flight that any copy holds
// whole counts, and where none does, the chain ends if the word accepts that acknowledged records may lie
// behind. Its incarnation must have no liveness row, by a fresh read, and its process must be gone for
// good: a writer that comes back could win a slot on copies that are away now.
//
// Without Apply nothing is written, and what would be completed counts as complete.
func Decide(ctx context.Context, rows rows, chain string, copies decidable, word Word) (Decision, error) {
	var d Decision
	for tried := false; ; tried = true {
		row := &novav1.ChainRow{}
		version, err := rows.Get(ctx, coord.ChainKey(chain), row)
		if err != nil {
			return d, fmt.Errorf("read the row of chain %s: %w", chain, err)
		}
		if row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
			if tried && row.GetSeal() == d.Seal { // this set has landed, or another's that found the same
				d.Applied = true
				return d, nil
			}
			return Decision{Before: row, Seal: row.GetSeal()}, ErrOver
		}
		d = Decision{Before: row}
		if err := d.walk(ctx, copies, word); err != nil || !word.Apply || d.End() == RuleStuck {
			return d, err
		}
		sealed := proto.CloneOf(row)
		sealed.State, sealed.Seal = novav1.ChainState_CHAIN_STATE_SEALED, d.Seal
		_, err = rows.Put(ctx, coord.ChainKey(chain), sealed, version)
		switch {
		case err == nil:
			d.Applied = true
			return d, nil
		case errors.Is(err, coord.ErrConflict), errors.Is(err, coord.ErrUnknown):
			continue // somebody was first, or this set has landed: the row says which
		}
		return d, fmt.Errorf("seal chain %s at slot %d: %w", chain, d.Seal, err)
	}
}

// walk rules slot after slot until one ends the chain.
func (d *Decision) walk(ctx context.Context, copies decidable, word Word) error {
	slot, err := copies.Committed(ctx, d.Before.GetFloor())
	if err != nil {
		return err
	}
	slot = max(slot, d.Before.GetFloor())
	for tries := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		votes, err := copies.Vote(ctx, slot)
		if err != nil {
			return fmt.Errorf("slot %d: %w", slot, err)
		}
		ruling := Rule(votes, votes.Flight > 0 && votes.Flight < votes.Quorum && copies.Whole(ctx, slot), word.AcceptLoss)
		if word.Apply && tries < triesPerSlot {
			act := map[Ruling]func(context.Context, uint64) error{RuleComplete: copies.Complete, RulePoison: copies.Poison}[ruling]
			if act != nil { // what could not be put shows in the next vote
				_ = act(ctx, slot)
				tries++
				continue
			}
		}
		d.Seal = slot
		switch {
		case ruling == RulePlain && tries == 0:
			slot++
			continue
		case ruling == RulePlain:
			ruling = RuleComplete // by this walk
		case word.Apply && ruling == RuleComplete:
			ruling = RuleCounts // no copy that has room takes it
		case word.Apply && ruling == RulePoison:
			return fmt.Errorf("slot %d, votes %+v after %d tries: %w", slot, votes, tries, ErrUndecided)
		}
		d.Rulings = append(d.Rulings, Ruled{slot, ruling, votes})
		switch ruling {
		case RuleComplete, RuleCounts:
			slot, tries = slot+1, 0
			continue
		case RuleEnds:
			if word.Apply {
				_ = copies.Poison(ctx, slot) // where there is room; the row's set is what ends the chain
			}
		}
		return nil
	}
}
