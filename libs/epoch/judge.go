package epoch

// Votes counts what the copies answered about one slot. Existence votes, content does not: whatever is
// no well-formed poison is a vote for the flight.
type Votes struct {
	Flight, Poison, Empty, Away int
	Quorum                      int // a majority of all copies, those away included
}

// Verdict is what a fencer does about one slot.
type Verdict int

const (
	// Decided: the flight stands on a quorum; it counts, the walk goes on behind it.
	Decided Verdict = iota
	// Complete: a flight was seen, short of a quorum. Its writer may have counted copies that are away
	// now, or may still count its late answers, so it is finished and never poisoned.
	Complete
	// Poison: a quorum answered and none of it shows a flight, so none was or can be acknowledged once
	// the poison has taken the empty places.
	Poison
	// Tail: poison stands on a quorum; the chain ends here as soon as the chain row says so.
	Tail
	// Wait: too few copies answer to know. Guessing could lose an acknowledged flight.
	Wait
)

// Judge decides one slot of a dead writer's chain. It is total over every count of votes.
func Judge(v Votes) Verdict {
	switch {
	case v.Flight >= v.Quorum:
		return Decided
	case v.Poison >= v.Quorum:
		return Tail
	case v.Flight > 0:
		if v.Empty > 0 && v.Flight+v.Empty+v.Away >= v.Quorum {
			return Complete
		}
		return Wait
	case v.Empty > 0 && v.Poison+v.Empty >= v.Quorum:
		return Poison
	}
	return Wait
}
