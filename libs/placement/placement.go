// Package placement decides where a stream's leadership belongs. It is pure: one snapshot of the fleet
// in, one designation with the numbers that made it out.
//
// The rule is the specification's ("Placing a new leadership"): the two stars with the highest
// rendezvous scores are the candidates, and the first wins unless the second carries significantly less
// leader-anchored load. Inside that band the hash of star and stream decides, so a burst of opens on the
// same stale numbers spreads over the fleet instead of meeting at whoever last said it was idle.
//
// Placer and star decide with the same function, so that a star without a placer answers as one would.
// Start reading at Designate; Decide adds what stands before placement: a holder, a handoff's successor.
package placement

import (
	"time"

	"github.com/zeebo/xxh3"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

const (
	// bandShare and bandBytes are the load band: the gap between the two candidates must be above both a
	// fifth of their mean and one MiB/s before load outweighs the hash.
	bandShare = 0.20
	bandBytes = 1 << 20
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
	Gap      float64   // First's load less Second's, bytes per second
	Deviated bool      // load outweighed the hash: the second leads
}

// ErrAtCapacity: no star is eligible. It is back-pressure, not a queue.
var ErrAtCapacity = &api.BoundError{Name: api.BoundFleetCapacity, RetryAfter: time.Second}

// Designate picks the star that should lead the stream with this id, leaving out the named stars. It
// returns ErrAtCapacity when none is eligible. It allocates nothing.
func Designate(fleet Snapshot, id string, without ...string) (Designation, error) {
	var d Designation
	found := 0
	for i := range fleet.Stars {
		s := &fleet.Stars[i]
		if !s.Eligible || contains(without, s.Name) {
			continue
		}
		found++
		c := Candidate{Star: *s, Score: score(s.Name, id)}
		switch {
		case found == 1 || beats(c, d.First):
			d.First, d.Second = c, d.First
		case found == 2 || beats(c, d.Second):
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
		if d.Gap > bandShare*mean && d.Gap > bandBytes {
			d.Star, d.Deviated = d.Second.Star, true
		}
	}
	return d, nil
}

// beats orders candidates by score, and equal scores by name, so that the snapshot's order never counts.
func beats(a, b Candidate) bool {
	return a.Score > b.Score || a.Score == b.Score && a.Star.Name < b.Star.Name
}

// score is the rendezvous score: the hash of the stream under a seed that the star's name makes.
func score(star, id string) uint64 { return xxh3.HashStringSeed(id, xxh3.HashString(star)) }

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
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
