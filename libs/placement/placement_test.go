package placement_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d, err := placement.Designate(pair("stream", tc.first, tc.second), "stream")
			if err != nil {
				t.Fatal(err)
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
	if r, err := placement.Decide(fleet, "stream", "draining", nil, time.Now(), "excluded"); err != nil || r.GetHolder() != "draining" {
		t.Errorf("a led stream is answered with its holder also at capacity; got %v, %v", r, err)
	}
}

func TestDecide(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	fleet := placement.FromRows(7, []*novav1.StarRow{{Star: "a", Address: "a:1"}, {Star: "b", Address: "b:1"}, {Star: "c", Address: "c:1", Saturated: true}}, nil)
	d, err := placement.Designate(fleet, "stream")
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"a": "b", "b": "a"}[d.Star.Name]
	tests := map[string]struct {
		holder    string
		successor *novav1.Successor
		without   []string
		want      string // designate
		bound     bool
	}{
		"placement alone":                    {want: d.Star.Name},
		"a successor binds":                  {successor: &novav1.Successor{Star: other, UntilUnixMs: 1_000_001}, want: other, bound: true},
		"until it runs out":                  {successor: &novav1.Successor{Star: other, UntilUnixMs: 1_000_000}, want: d.Star.Name},
		"unless it is not eligible":          {successor: &novav1.Successor{Star: "c", UntilUnixMs: 2_000_000}, want: d.Star.Name},
		"unless it has left":                 {successor: &novav1.Successor{Star: "gone", UntilUnixMs: 2_000_000}, want: d.Star.Name},
		"nobody is sent to an excluded star": {successor: &novav1.Successor{Star: other, UntilUnixMs: 2_000_000}, without: []string{other}, want: d.Star.Name},
		"a holder does not change it":        {holder: other, want: d.Star.Name},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := placement.Decide(fleet, "stream", tc.holder, tc.successor, now, tc.without...)
			if err != nil {
				t.Fatal(err)
			}
			if r.GetDesignate() != tc.want || r.GetSuccessor() != tc.bound || r.GetHolder() != tc.holder || r.GetDesignateAddress() != tc.want+":1" {
				t.Errorf("Decide = %v, want designate %s (bound %v), holder %q", r, tc.want, tc.bound, tc.holder)
			}
		})
	}
}

func stars(n int) placement.Snapshot {
	var fleet placement.Snapshot
	for i := range n {
		fleet.Stars = append(fleet.Stars, placement.Star{Name: fmt.Sprintf("star-%d", i), Eligible: true})
	}
	return fleet
}

func TestAStarThatJoinsOrLeavesMovesOnlyItsOwnStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := stars(rapid.IntRange(2, 12).Draw(t, "stars"))
		changed := fleet.Stars[rapid.IntRange(0, len(fleet.Stars)-1).Draw(t, "changed")].Name
		shuffled := placement.Snapshot{Stars: append([]placement.Star(nil), fleet.Stars...)}
		rand.Shuffle(len(shuffled.Stars), func(i, j int) {
			shuffled.Stars[i], shuffled.Stars[j] = shuffled.Stars[j], shuffled.Stars[i]
		})
		id := rapid.String().Draw(t, "stream")
		with, _ := placement.Designate(fleet, id)
		without, _ := placement.Designate(shuffled, id, changed)
		if with.Star.Name != changed && with.Star.Name != without.Star.Name {
			t.Fatalf("%s moved from %s to %s when %s left", id, with.Star.Name, without.Star.Name, changed)
		}
		if again, _ := placement.Designate(shuffled, id); again.Star.Name != with.Star.Name {
			t.Fatalf("the snapshot's order decided: %s or %s", with.Star.Name, again.Star.Name)
		}
	})
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
	for star, n := range led {
		if n < streams/10*85/100 || n > streams/10*115/100 {
			t.Errorf("%s leads %d of %d streams, more than 15%% from even", star, n, streams)
		}
	}
}

func TestDesignateAllocatesNothing(t *testing.T) {
	fleet := stars(100)
	if n := testing.AllocsPerRun(100, func() { _, _ = placement.Designate(fleet, "01J9ZZZZZZZZZZZZZZZZZZZZZZ", "star-3") }); n != 0 {
		t.Errorf("Designate allocates %v times", n)
	}
}

func BenchmarkDesignate1000(b *testing.B) {
	fleet := stars(1000)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = placement.Designate(fleet, "01J9ZZZZZZZZZZZZZZZZZZZZZZ")
	}
}
