// Package placement decides where a stream's leadership belongs. It is pure: one snapshot of the fleet
// in, one designation with the numbers that made it out. It knows no clock, no client and no lease.
//
// The rule is the specification's ("Placing a new leadership"): the two stars with the highest
// rendezvous scores are the candidates, and the first wins unless the second carries significantly less
// leader-anchored load. Inside that band the hash of star and stream decides, so a burst of opens on the
// same stale numbers spreads over the fleet instead of meeting at whoever last said it was idle.
//
// Every process of the fleet decides with this package: the placer, a star whose placer is away, a
// gateway, and whatever asks where a stream would go. They agree because the scores depend on nothing
// but the two names (score.go; a test pins some of them) and never on the snapshot's order. What they
// may differ in is the age of their snapshots.
//
// Start reading at Designate (designate.go). Decide (decide.go) adds what stands before placement: the
// star that leads already, and the one that a handoff has named.
package placement
