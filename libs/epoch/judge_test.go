package epoch

import "testing"

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		votes Votes
		want  Verdict
	}{
		"a flight on a quorum is decided, whoever is away":        {Votes{Flight: 2, Away: 1, Quorum: 2}, Decided},
		"a flight on one of three is completed":                   {Votes{Flight: 1, Empty: 2, Quorum: 2}, Complete},
		"a flight on one, one away: completed on the empty one":   {Votes{Flight: 1, Empty: 1, Away: 1, Quorum: 2}, Complete},
		"a flight and a poison, one away: wait, never guess":      {Votes{Flight: 1, Poison: 1, Away: 1, Quorum: 2}, Wait},
		"a flight and a poison, one empty: the flight wins it":    {Votes{Flight: 1, Poison: 1, Empty: 1, Quorum: 2}, Complete},
		"nothing on a quorum: poison":                             {Votes{Empty: 2, Away: 1, Quorum: 2}, Poison},
		"a half-made poison is finished":                          {Votes{Poison: 1, Empty: 2, Quorum: 2}, Poison},
		"a half-made poison and one away is finished on the rest": {Votes{Poison: 1, Empty: 1, Away: 1, Quorum: 2}, Poison},
		"poison on a quorum is the tail":                          {Votes{Poison: 2, Flight: 1, Quorum: 2}, Tail},
		"too few answers and nothing seen: wait":                  {Votes{Empty: 1, Away: 2, Quorum: 2}, Wait},
		"one flight and two away: wait":                           {Votes{Flight: 1, Away: 2, Quorum: 2}, Wait},
		"one copy, one flight":                                    {Votes{Flight: 1, Quorum: 1}, Decided},
		"one copy, empty":                                         {Votes{Empty: 1, Quorum: 1}, Poison},
		"one copy, away":                                          {Votes{Away: 1, Quorum: 1}, Wait},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Judge(tc.votes); got != tc.want {
				t.Errorf("Judge(%+v) = %d, want %d", tc.votes, got, tc.want)
			}
		})
	}
}

// TestJudgeNeverPoisonsWhatMayBeAcknowledged walks every possible vote of three and five copies: where a
// reachable copy shows a flight, or where the copies away could hide a quorum of it, no poison is put.
func TestJudgeNeverPoisonsWhatMayBeAcknowledged(t *testing.T) {
	for _, copies := range []int{1, 3, 5} {
		quorum := copies/2 + 1
		for flight := range copies + 1 {
			for poison := range copies + 1 - flight {
				for empty := range copies + 1 - flight - poison {
					v := Votes{Flight: flight, Poison: poison, Empty: empty, Away: copies - flight - poison - empty, Quorum: quorum}
					got := Judge(v)
					if got == Poison && (flight > 0 || v.Away >= quorum) {
						t.Errorf("%+v is poisoned", v)
					}
					if got == Complete && flight == 0 {
						t.Errorf("%+v is completed from nothing", v)
					}
					if (got == Decided) != (flight >= quorum) {
						t.Errorf("%+v: decided is %v", v, got == Decided)
					}
				}
			}
		}
	}
}
