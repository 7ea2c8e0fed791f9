package placement

import (
	"slices"
	"time"

	"nova.internal/libs/api/novav1"
)

// Decide answers who leads a stream or would, from what stands: the lease's holder ("" for none), the
// head's successor record (nil for none), and the fleet. Of what it returns, Holder is empty for a vacant
// stream, and Designate is empty only where somebody leads and nobody else may.
//
// A holder is named as it is: designation drift never moves a led stream. A holder that is not in the
// snapshot has no address to be sent to and counts as none, and so does one that the caller leaves out,
// which is how a star asks where its own stream should go.
//
// A successor whose time has not run out and whose star is eligible is the designate, so that placement
// does not send a stream back that a handoff has just moved. The caller reads it whenever it counts on
// the designate: where no lease stands, or the lease's star is left out.
//
// A fleet without an eligible star is ErrAtCapacity only where nobody leads.
func Decide(fleet Snapshot, id, holder string, successor *novav1.Successor, now time.Time, without ...string) (*novav1.ResolveResponse, error) {
	r := &novav1.ResolveResponse{Revision: fleet.Revision}
	if s, ok := fleet.Star(holder); ok && !slices.Contains(without, holder) {
		r.Holder, r.HolderAddress = s.Name, s.Address
	}
	d, err := Designate(fleet, id, without...)
	if err != nil {
		if r.Holder != "" {
			return r, nil
		}
		return nil, err
	}
	for _, c := range []Candidate{d.First, d.Second} {
		if c.Star.Name != "" {
			r.Candidates = append(r.Candidates, &novav1.Candidate{Star: c.Star.Name, Score: c.Score, LoadBytesPerSecond: c.Star.Load})
		}
	}
	leads, next := d.Star, d.RunnerUp().Star
	if s, ok := fleet.Star(successor.GetStar()); ok && s.Eligible && !slices.Contains(without, s.Name) && now.UnixMilli() < successor.GetUntilUnixMs() {
		r.Successor = true
		if s.Name != leads.Name {
			leads, next = s, leads
		}
	}
	r.Designate, r.DesignateAddress, r.RunnerUp = leads.Name, leads.Address, next.Name
	return r, nil
}

// Star finds a star by name; the empty name is nobody's.
func (s Snapshot) Star(name string) (Star, bool) {
	i := slices.IndexFunc(s.Stars, func(star Star) bool { return star.Name == name })
	if i < 0 || name == "" {
		return Star{}, false
	}
	return s.Stars[i], true
}
