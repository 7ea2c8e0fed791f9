package placement

import "github.com/zeebo/xxh3"

// Score is the rendezvous score of a star for a stream: XXH3-64 of the stream's id, seeded with XXH3-64
// of the star's name. It is part of the contract between the processes of a fleet: another function here
// would make stars of two versions send a stream to and fro, and would move every stream's place.
func Score(star, id string) uint64 { return xxh3.HashStringSeed(id, xxh3.HashString(star)) }

// beats orders candidates by score, and equal scores by name, so that the snapshot's order never counts.
func (c Candidate) beats(other Candidate) bool {
	return c.Score > other.Score || c.Score == other.Score && c.Star.Name < other.Star.Name
}
