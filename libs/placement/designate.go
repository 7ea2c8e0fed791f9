package placement

import (
	"slices"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

const (
	// bandShare and bandBytes are the load band: the gap between the two candidates must be above both a
	// fifth of their mean and one MiB/s before load outweighs the hash.
	bandShare = 0.20
	bandBytes = 1 << 20 // per second
)

// Star is one member of the fleet as placement sees it.
type Star struct {
	Name     string
	Address  string
	Location string
	Load     float64 // leader-anchored: appends offered and hot reads, bytes per second
	Eligible bool    // neither saturated nor draining nor set aside
}

// Snapshot is the fleet at one moment.
type Snapshot struct {
	Revision int64
	Stars    []Star
}

// Candidate is a star with its rendezvous score for the stream.
type Candidate struct {
	Star  Star
	Score uint64
}

// Designation is who should lead a stream, and why.
type Designation struct {
	Star     Star
	First    Candidate // the highest score
	Second   Candidate // the next; its star has no name when there is only one
	Gap      float64   // First's load less Second's, bytes per second; below 0 when Second carries more
	Deviated bool      // load outweighed the hash: the second leads
}

// RunnerUp is the candidate that does not lead. Its star has no name when there is only one.
func (d Designation) RunnerUp() Candidate {
	if d.Deviated {
		return d.First
	}
	return d.Second
}

// ErrAtCapacity: no star is eligible. It is back-pressure, not a queue.
var ErrAtCapacity = &api.BoundError{Name: api.BoundFleetCapacity, RetryAfter: time.Second}

// Designate picks the star that should lead the stream with this id, leaving out the named stars. It
// returns ErrAtCapacity when none is eligible. It allocates nothing, and looks at each star once.
//
// The band is what keeps a herd of opens from following one number: load is published every few seconds,
// and a star that looks idle would else get every stream opened meanwhile. A load that is no number
// outweighs nothing.
func Designate(fleet Snapshot, id string, without ...string) (Designation, error) {
	var d Designation
	found := 0
	for i := range fleet.Stars {
		s := &fleet.Stars[i]
		if !s.Eligible || slices.Contains(without, s.Name) {
			continue
		}
		found++
		c := Candidate{Star: *s, Score: Score(s.Name, id)}
		switch {
		case found == 1 || c.beats(d.First):
			d.First, d.Second = c, d.First
		case found == 2 || c.beats(d.Second):
			d.Second = c
		}
	}
	if found == 0 {
		return Designation{}, ErrAtCapacity
	}
	d.Star = d.First.Star
	if found > 1 {
		d.Gap = d.First.Star.Load - d.Second.Star.Load
		mean := (d.First.Star.Load + d.Second.Star.Load) / 2
		if d.Gap > bandShare*mean && d.Gap > bandBytes { // both above, not at
			d.Star, d.Deviated = d.Second.Star, true
		}
	}
	return d, nil
}

// FromRows makes a snapshot from the registry's rows. Stats are matched by name; a star without any has
// no load yet.
func FromRows(revision int64, stars []*novav1.StarRow, stats []*novav1.StatsRow) Snapshot {
	load := make(map[string]float64, len(stats))
	for _, s := range stats {
		load[s.GetStar()] = s.GetAppendBytesPerSecond() + s.GetHotReadBytesPerSecond()
	}
	out := Snapshot{Revision: revision, Stars: make([]Star, 0, len(stars))}
	for _, s := range stars {
		out.Stars = append(out.Stars, Star{
			Name: s.GetStar(), Address: s.GetAddress(), Location: s.GetLocation(), Load: load[s.GetStar()],
			Eligible: !s.GetSaturated() && s.GetDraining() == novav1.Draining_DRAINING_NONE && s.GetIneligible() == "",
		})
	}
	return out
}
