package placement

import "testing"

// The processes of a fleet need not be of one version, and they must agree. These scores stand for ever.
func TestScoresNeverChange(t *testing.T) {
	for _, tc := range []struct {
		star, id string
		want     uint64
	}{
		{"star-1", "01J9ZZZZZZZZZZZZZZZZZZZZZZ", 0xd84294a94c10d21f},
		{"star-2", "01J9ZZZZZZZZZZZZZZZZZZZZZZ", 0x9a60e3803341c7a8},
		{"star-1", "01J9ZZZZZZZZZZZZZZZZZZZZZY", 0x5b3a6674d71e647a},
		{"eu-west_7", "01ARZ3NDEKTSV4RRFFQ69G5FAV", 0x41003e3527a37921},
	} {
		if got := Score(tc.star, tc.id); got != tc.want {
			t.Errorf("Score(%q, %q) = %#x, want %#x", tc.star, tc.id, got, tc.want)
		}
	}
}

func TestEqualScoresAreOrderedByName(t *testing.T) {
	a, b := Candidate{Star: Star{Name: "a"}, Score: 7}, Candidate{Star: Star{Name: "b"}, Score: 7}
	if !a.beats(b) || b.beats(a) || a.beats(a) {
		t.Error("equal scores are not ordered by name")
	}
	if b.Score++; a.beats(b) || !b.beats(a) {
		t.Error("the name counts before the score")
	}
}
