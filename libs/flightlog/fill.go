package flightlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// FillStep is what a store that is to become a copy is given in one slot.
type FillStep int

const (
	// FillNothing: the slot stays as it is.
	FillNothing FillStep = iota
	// FillFlight: the slot's flight, as another copy holds it whole.
	FillFlight
	// FillObject: the object as another copy holds it, damaged. It is no flight any more, and still a vote:
	// without it a fence could end the chain below records that were acknowledged.
	FillObject
	// FillPoison: a poison. Where the store shows something else it is replaced.
	FillPoison
)

// Ending is where a chain ends, if it does.
type Ending struct {
	Ended bool // sealed or settled
	Seal  uint64
}

// PlanFill decides what a store that held votes once, or its predecessor did, must hold again before it
// may vote, from what the other copies show; at least as many of them as a quorum has must have answered.
//
// A flight that was acknowledged with the lost store's vote lies on another of them, so whatever flight is
// seen is copied, whether its slot is decided or not: that completes it, as a fence would. A poison
// counts at the seal alone, and there it must stand, or a writer that stalled could still win the slot on
// the new store. A poison in a slot of an open chain means nothing and is not copied: the lost store may
// have held the flight there, and that may have been acknowledged. Slots above a seal never count.
func PlanFill(end Ending, slot uint64, others []Shown) FillStep {
	shows := func(kinds ...Shown) bool {
		return slices.ContainsFunc(others, func(s Shown) bool { return slices.Contains(kinds, s) })
	}
	switch {
	case end.Ended && slot > end.Seal:
		return FillNothing
	case end.Ended && slot == end.Seal:
		if shows(ShowsWhole, ShowsDamaged, ShowsNewer, ShowsPoison) {
			return FillPoison
		}
	case shows(ShowsWhole):
		return FillFlight
	case shows(ShowsDamaged, ShowsNewer):
		return FillObject
	}
	return FillNothing
}

// Filled counts what a store was given.
type Filled struct {
	Objects uint64
	Bytes   int64
}

// FillChain gives the store to, which takes no part yet, what it must hold of a chain (PlanFill), from
// the other copies. All of them must answer; the caller sees that they are enough. It may be repeated.
func FillChain(ctx context.Context, from []Copy, to Copy, chain string, end Ending, fencer string) (Filled, error) {
	var filled Filled
	slots := map[uint64]bool{}
	for _, c := range from {
		if err := slotsOn(ctx, c, chain, slots); err != nil {
			return filled, err
		}
	}
	there := map[uint64]bool{}
	if err := slotsOn(ctx, to, chain, there); err != nil {
		return filled, err
	}
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		if there[slot] && !(end.Ended && slot == end.Seal) {
			continue // put whole by an earlier try; whatever has become of it since is repair's
		}
		n, err := fillSlot(ctx, from, to, chain, slot, end, fencer)
		if err != nil {
			return filled, fmt.Errorf("fill slot %d of %s on %s: %w", slot, chain, to.Name(), err)
		}
		if n > 0 {
			filled.Objects, filled.Bytes = filled.Objects+1, filled.Bytes+int64(n)
		}
	}
	return filled, nil
}

// slotsOn adds the slots in which a copy shows anything.
func slotsOn(ctx context.Context, c Copy, chain string, slots map[uint64]bool) error {
	for o, err := range c.List(ctx, "flights/"+chain, "") {
		if err != nil {
			return fmt.Errorf("list %s on %s: %w", chain, c.Name(), err)
		}
		if slot, err := slotOf(o.Key); err == nil { // nova put no other key
			slots[slot] = true
		}
	}
	return nil
}

func fillSlot(ctx context.Context, from []Copy, to Copy, chain string, slot uint64, end Ending, fencer string) (int, error) {
	shown := make([]Shown, len(from))
	var flight, object, poison []byte
	for i, c := range from {
		look, b := lookAt(ctx, c, chain, slot)
		switch shown[i] = look.Shown; look.Shown {
		case ShowsUnknown:
			return 0, fmt.Errorf("%s does not answer", c.Name())
		case ShowsWhole:
			flight = b
		case ShowsDamaged, ShowsNewer:
			object = b
		case ShowsPoison:
			poison = b
		}
		if flight != nil && !(end.Ended && slot == end.Seal) {
			break // what else there is changes nothing
		}
	}
	var put []byte
	switch PlanFill(end, slot, shown) {
	case FillNothing:
		return 0, nil
	case FillFlight:
		put = flight
	case FillObject:
		put = object
	case FillPoison:
		look, _ := lookAt(ctx, to, chain, slot)
		if look.Shown == ShowsPoison {
			return 0, nil
		}
		if put = poison; put == nil {
			p := Poison{Chain: chain, Slot: slot, Fencer: fencer}
			_, _ = rand.Read(p.Nonce[:]) // never fails
			put = p.Encode()
		}
		if look.Shown != ShowsMissing {
			return len(put), to.Overwrite(ctx, SlotKey(chain, slot), put)
		}
	}
	if err := to.Put(ctx, SlotKey(chain, slot), put); err != nil && !errors.Is(err, ErrExists) {
		return 0, err
	}
	return len(put), nil
}

// Census counts the decided slots of one chain on one copy.
type Census struct {
	Flights uint64 // stand there
	Missing uint64 // stand on another copy, and not there
	Damaged uint64 // stand there and are not the flight; counted only where objects are read
	Err     error  // the copy could not be listed
}

// Take counts what each copy holds of the slots below a bound, which are decided. Without verify objects
// are only listed.
func Take(ctx context.Context, copies *Copies, chain string, below uint64, verify bool) []Census {
	census, shown := make([]Census, len(copies.List)), make([]map[uint64]bool, len(copies.List))
	all := map[uint64]bool{}
	for i, c := range copies.List {
		shown[i] = map[uint64]bool{}
		census[i].Err = slotsOn(ctx, c, chain, shown[i])
		maps.Copy(all, shown[i])
	}
	for slot := range all {
		if slot >= below {
			continue
		}
		for i, c := range copies.List {
			switch {
			case census[i].Err != nil:
				continue
			case !shown[i][slot]:
				census[i].Missing++
				continue
			}
			census[i].Flights++
			if !verify {
				continue
			}
			if look, _ := lookAt(ctx, c, chain, slot); look.Shown != ShowsWhole && look.Shown != ShowsUnknown && look.Shown != ShowsMissing {
				census[i].Damaged++
			}
		}
	}
	return census
}
