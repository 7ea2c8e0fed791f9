package placement

import (
	"time"

	"nova.internal/libs/api/novav1"
)

// Decide answers who leads a stream or would, from what stands: the lease's holder ("" for none), the
// head's successor record (nil for none), and the fleet.
//
// A holder is named as it is: designation drift never moves a led stream. A successor whose time has not
// run out and whose star is eligible is the designate, so that placement does not send a stream back
// that a handoff has just moved. A fleet without an eligible star is ErrAtCapacity only where nobody
// leads.
func Decide(fleet Snapshot, id, holder string, successor *novav1.Successor, now time.Time, without ...string) (*novav1.ResolveResponse, error) {
	r := &novav1.ResolveResponse{Revision: fleet.Revision}
	if s, ok := fleet.star(holder); ok && !contains(without, holder) {
		r.Holder, r.HolderAddress = s.Name, s.Address
	}
	d, err := Designate(fleet, id, without...)
	if err != nil {
		if r.Holder != "" {
			return r, nil
		}
		return nil, err
	}
	r.Designate, r.DesignateAddress = d.Star.Name, d.Star.Address
	for _, c := range []Candidate{d.First, d.Second} {
		if c.Star.Name != "" {
			r.Candidates = append(r.Candidates, &novav1.Candidate{Star: c.Star.Name, Score: c.Score, LoadBytesPerSecond: c.Star.Load})
		}
	}
	r.RunnerUp = d.Second.Star.Name
	if d.Deviated {
		r.RunnerUp = d.First.Star.Name
	}
	if s, ok := fleet.star(successor.GetStar()); ok && s.Eligible && !contains(without, s.Name) && now.UnixMilli() < successor.GetUntilUnixMs() {
		r.Designate, r.DesignateAddress, r.Successor = s.Name, s.Address, true
	}
	return r, nil
}

func (s Snapshot) star(name string) (Star, bool) {
	for _, star := range s.Stars {
		if star.Name == name {
			return star, true
		}
	}
	return Star{}, false
}
