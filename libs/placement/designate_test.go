package placement_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/placement"
)

const mib = 1 << 20

// pair returns a fleet of two stars with the loads given in the order of their scores for id.
func pair(id string, first, second float64) placement.Snapshot {
	fleet := placement.Snapshot{Stars: []placement.Star{{Name: "a", Eligible: true}, {Name: "b", Eligible: true}}}
	d, _ := placement.Designate(fleet, id)
	for i := range fleet.Stars {
		fleet.Stars[i].Load = second
		if fleet.Stars[i].Name == d.First.Star.Name {
			fleet.Stars[i].Load = first
		}
	}
	return fleet
}

func TestTheLoadBand(t *testing.T) {
	tests := map[string]struct {
		first, second float64
		deviates      bool
	}{
		"equal loads: the hash decides":                      {5 * mib, 5 * mib, false},
		"a gap of exactly a fifth stays":                     {110 * mib, 90 * mib, false},
		"a gap just over a fifth and over 1 MiB/s moves":     {110*mib + 1000, 90 * mib, true},
		"a large share below 1 MiB/s stays":                  {mib, 1, false},
		"a gap of exactly 1 MiB/s stays":                     {mib, 0, false},
		"just over 1 MiB/s against nothing moves":            {mib + 1, 0, true},
		"the runner-up carries more: stays":                  {10 * mib, 90 * mib, false},
		"over 1 MiB/s but within a fifth of the mean: stays": {100 * mib, 90 * mib, false},
		"both conditions by far: moves":                      {500 * mib, 10 * mib, true},
		"a load that is no number outweighs nothing":         {math.NaN(), 0, false},
		"nor does one without an end":                        {math.Inf(1), 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d, err := placement.Designate(pair("stream", tc.first, tc.second), "stream")
			if err != nil {
				t.Fatal(err)
			}
			if d.First.Star.Load != tc.first && !math.IsNaN(tc.first) || d.Second.Star.Load != tc.second {
				t.Fatalf("the candidates carry %v and %v", d.First.Star.Load, d.Second.Star.Load)
			}
			if d.Deviated != tc.deviates || (d.Star.Name == d.Second.Star.Name) != tc.deviates {
				t.Errorf("deviated = %v to %s (first %s), want %v", d.Deviated, d.Star.Name, d.First.Star.Name, tc.deviates)
			}
		})
	}
}

func TestAFleetWithoutAnEligibleStarIsAtCapacity(t *testing.T) {
	fleet := placement.FromRows(1, []*novav1.StarRow{
		{Star: "saturated", Saturated: true},
		{Star: "draining", Draining: novav1.Draining_DRAINING_SERVING},
		{Star: "aside", Ineligible: "its storage does not answer"},
		{Star: "excluded"},
	}, nil)
	_, err := placement.Designate(fleet, "stream", "excluded")
	var bound *api.BoundError
	if !errors.As(err, &bound) || bound.Name != api.BoundFleetCapacity {
		t.Fatalf("Designate = %v, want at capacity", err)
	}
}

func stars(n int) placement.Snapshot {
	var fleet placement.Snapshot
	for i := range n {
		fleet.Stars = append(fleet.Stars, placement.Star{Name: fmt.Sprintf("star-%d", i), Eligible: true})
	}
	return fleet
}

// someFleet draws a fleet whose loads lie within bound, in an order of its own.
func someFleet(t *rapid.T, bound float64) placement.Snapshot {
	fleet := stars(rapid.IntRange(1, 12).Draw(t, "stars"))
	for i := range fleet.Stars {
		fleet.Stars[i].Load = rapid.Float64Range(0, bound).Draw(t, "load")
		fleet.Stars[i].Eligible = rapid.IntRange(0, 4).Draw(t, "eligible") > 0
	}
	fleet.Stars = rapid.Permutation(fleet.Stars).Draw(t, "order")
	return fleet
}

// expected is the rule written down a second time, by sorting.
func expected(fleet placement.Snapshot, id string, without []string) (star string, deviated bool) {
	var able []placement.Star
	for _, s := range fleet.Stars {
		if s.Eligible && !slices.Contains(without, s.Name) {
			able = append(able, s)
		}
	}
	slices.SortFunc(able, func(a, b placement.Star) int {
		return cmp.Compare(placement.Score(b.Name, id), placement.Score(a.Name, id))
	})
	switch {
	case len(able) == 0:
		return "", false
	case len(able) == 1:
		return able[0].Name, false
	}
	gap, mean := able[0].Load-able[1].Load, (able[0].Load+able[1].Load)/2
	if gap > mean*0.2 && gap > 1024*1024 {
		return able[1].Name, true
	}
	return able[0].Name, false
}

func TestTheTopTwoByScoreAreTheCandidatesAndNobodyElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := someFleet(t, 8*mib)
		id := rapid.String().Draw(t, "stream")
		without := rapid.SliceOfN(rapid.SampledFrom([]string{"star-0", "star-1", "star-2", "unknown"}), 0, 3).Draw(t, "without")
		star, deviated := expected(fleet, id, without)
		d, err := placement.Designate(fleet, id, without...)
		if (err != nil) != (star == "") || err != nil && !errors.Is(err, placement.ErrAtCapacity) {
			t.Fatalf("Designate = %v, want star %q", err, star)
		}
		if d.Star.Name != star || d.Deviated != deviated {
			t.Fatalf("Designate = %s (deviated %v), want %s (%v)", d.Star.Name, d.Deviated, star, deviated)
		}
		if star != "" && d.RunnerUp().Star.Name == star {
			t.Fatalf("%s is its own runner-up", star)
		}
	})
}

func TestTheSnapshotsOrderDoesNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := someFleet(t, 8*mib)
		id := rapid.String().Draw(t, "stream")
		other := placement.Snapshot{Stars: rapid.Permutation(fleet.Stars).Draw(t, "other order")}
		one, _ := placement.Designate(fleet, id)
		two, _ := placement.Designate(other, id)
		if one != two {
			t.Fatalf("%+v or %+v, by the order", one, two)
		}
	})
}

// Outside the band a newcomer may also move a stream between two others, by being the runner-up that
// carries as much: the band's own stars are what this holds for.
func TestAStarThatJoinsOrLeavesMovesOnlyItsOwnStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := someFleet(t, mib)
		changed := rapid.SampledFrom(fleet.Stars).Draw(t, "changed").Name
		smaller := placement.Snapshot{Stars: slices.DeleteFunc(slices.Clone(fleet.Stars), func(s placement.Star) bool { return s.Name == changed })}
		id := rapid.String().Draw(t, "stream")
		with, _ := placement.Designate(fleet, id)
		gone, _ := placement.Designate(smaller, id)
		if with.Star.Name != changed && with.Star.Name != gone.Star.Name {
			t.Fatalf("%s is at %s with %s and at %s without", id, with.Star.Name, changed, gone.Star.Name)
		}
		if left, _ := placement.Designate(fleet, id, changed); left != gone {
			t.Fatalf("left out, %s makes %+v; gone, %+v", changed, left, gone)
		}
	})
}

func TestANewStarGetsItsShare(t *testing.T) {
	const streams = 10_000
	before, after := stars(9), stars(10)
	moved := 0
	for range streams {
		id := ulid.Make().String()
		was, _ := placement.Designate(before, id)
		is, _ := placement.Designate(after, id)
		if was.Star.Name == is.Star.Name {
			continue
		}
		moved++
		if is.Star.Name != "star-9" {
			t.Fatalf("%s moved from %s to %s, neither of which is new", id, was.Star.Name, is.Star.Name)
		}
	}
	if moved < streams/10*85/100 || moved > streams/10*115/100 {
		t.Errorf("%d of %d streams moved to the tenth star", moved, streams)
	}
}

func TestAHerdOfOpensOnOneSnapshotSpreadsEvenly(t *testing.T) {
	fleet := stars(10)
	for i := range fleet.Stars {
		fleet.Stars[i].Load = float64(i) * 50_000 // uneven, inside the band
	}
	led := map[string]int{}
	const streams = 10_000
	for range streams {
		d, err := placement.Designate(fleet, ulid.Make().String())
		if err != nil {
			t.Fatal(err)
		}
		led[d.Star.Name]++
	}
	for _, s := range fleet.Stars {
		star, n := s.Name, led[s.Name]
		if n < streams/10*85/100 || n > streams/10*115/100 {
			t.Errorf("%s leads %d of %d streams, more than 15%% from even", star, n, streams)
		}
	}
}

func TestAHerdDoesNotFollowOneLowNumber(t *testing.T) {
	fleet := stars(10)
	for i := range fleet.Stars {
		fleet.Stars[i].Load = 50 * mib
	}
	fleet.Stars[3].Load = 0
	const streams = 10_000
	led := 0
	for range streams {
		if d, err := placement.Designate(fleet, ulid.Make().String()); err != nil {
			t.Fatal(err)
		} else if d.Star.Name == "star-3" {
			led++
		}
	}
	// It is among the two candidates of a fifth of the streams, and gets no other.
	if led < streams/5*85/100 || led > streams/5*115/100 {
		t.Errorf("the idle star leads %d of %d streams, want about a fifth", led, streams)
	}
}

func TestDesignateAllocatesNothing(t *testing.T) {
	fleet := stars(100)
	if n := testing.AllocsPerRun(100, func() { _, _ = placement.Designate(fleet, "01J9ZZZZZZZZZZZZZZZZZZZZZZ", "star-3") }); n != 0 {
		t.Errorf("Designate allocates %v times", n)
	}
}

// BenchmarkDesignate1000 is one decision in a fleet of 1,000 stars, whose bound is 20 microseconds.
func BenchmarkDesignate1000(b *testing.B) {
	fleet := stars(1000)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = placement.Designate(fleet, "01J9ZZZZZZZZZZZZZZZZZZZZZZ")
	}
}
