package flightlog

import (
	"fmt"
	"slices"
)

// Shown is what one copy shows of a slot when its object is read whole.
type Shown int

const (
	// ShowsUnknown: the copy did not answer, or is not admitted.
	ShowsUnknown Shown = iota
	// ShowsWhole: the slot's flight, every checksum right.
	ShowsWhole
	// ShowsDamaged: an object that is neither the slot's flight nor a poison.
	ShowsDamaged
	// ShowsMissing: nothing.
	ShowsMissing
	// ShowsPoison: a well-formed poison of the slot.
	ShowsPoison
	// ShowsNewer: an object that says it is of a version which this software does not know, as one does
	// whose version byte is damaged.
	ShowsNewer
)

// String names what is shown as logs, metrics and people do.
func (s Shown) String() string {
	switch s {
	case ShowsWhole:
		return "whole"
	case ShowsDamaged:
		return "damaged"
	case ShowsMissing:
		return "missing"
	case ShowsPoison:
		return "poison"
	case ShowsNewer:
		return "newer"
	}
	return "away"
}

// Look is one copy's part of a slot: what it shows and, of a whole flight, which one.
type Look struct {
	Shown Shown
	Nonce [16]byte
}

// RepairVerdict says what can be done about a slot.
type RepairVerdict int

const (
	// HandsOff: the slot is not decided. Votes are still counted in it, so nobody but its writer and the
	// chain's fencer may put anything there. Or newer software has to look at it.
	HandsOff RepairVerdict = iota
	// Sound: every copy that answers holds the flight.
	Sound
	// Mend: some do not, and one that does is there to copy from.
	Mend
	// Lost: no copy that answers holds the flight whole.
	Lost
	// Torn: two copies hold different flights, each whole. No fault of a store does that.
	Torn
)

// RepairPlan is what to write where. Indices are the copies'.
type RepairPlan struct {
	Verdict   RepairVerdict
	Source    int   // holds the flight whole; -1 without one
	Fill      []int // put, create-if-absent
	Overwrite []int // put in the place of what stands
}

// PlanRepair decides one slot. decided says that the slot is known to hold a flight for good: a segment's
// ref names it, its writer has committed it, it lies below its chain's floor, or below its chain's seal.
//
// In such a slot what the copies show votes no more: the flight stands, or stood, on a quorum that no
// poison can have reached, and neither floor nor seal ever fall. So a poison that a fencer left there on
// a minority has no meaning, and it, like a damaged object, which may once have been one, gives way to
// the flight. Nothing is ever written that was not read whole from another copy, and nothing is removed.
//
// In any other slot an object that comes, goes or changes its kind could make a quorum that nobody
// counted, or take one back that somebody did. There the plan is to do nothing.
func PlanRepair(decided bool, looks []Look) RepairPlan {
	p := RepairPlan{Source: -1}
	if !decided {
		return p
	}
	for i, l := range looks {
		switch {
		case l.Shown != ShowsWhole:
		case p.Source < 0:
			p.Source = i
		case l.Nonce != looks[p.Source].Nonce:
			return RepairPlan{Verdict: Torn, Source: -1}
		}
	}
	if p.Source < 0 {
		if slices.ContainsFunc(looks, func(l Look) bool { return l.Shown == ShowsNewer }) {
			return p
		}
		p.Verdict = Lost
		return p
	}
	p.Verdict = Sound
	for i, l := range looks {
		switch l.Shown {
		case ShowsMissing:
			p.Fill, p.Verdict = append(p.Fill, i), Mend
		case ShowsDamaged, ShowsPoison, ShowsNewer: // a slot has one writer, so a flight is of one version
			p.Overwrite, p.Verdict = append(p.Overwrite, i), Mend
		}
	}
	return p
}

// String names the verdict.
func (v RepairVerdict) String() string {
	switch v {
	case HandsOff:
		return "hands off"
	case Sound:
		return "sound"
	case Mend:
		return "mend"
	case Lost:
		return "lost"
	case Torn:
		return "torn"
	}
	return fmt.Sprint(int(v))
}
