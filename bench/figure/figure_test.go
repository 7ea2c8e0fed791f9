package figure

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAFigureIsTheMedianOfItsRounds(t *testing.T) {
	rounds := []Pair{{Value: 10, Baseline: 20}, {Value: 90, Baseline: 100}, {Value: 30, Baseline: 40}}
	got := Spec{Name: "x", Unit: "MB/s", Against: "y", Target: AtLeast(0.8)}.Of(rounds, "")
	met := false
	want := Result{Name: "x", Value: 30, Unit: "MB/s", Baseline: 40, Ratio: 0.75, Against: "y", Target: "ratio ≥ 0.80", Met: &met, Rounds: rounds}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figure (-want +got):\n%s", diff)
	}
	lowest, highest := got.Spread()
	if lowest != 0.5 || highest != 0.9 {
		t.Errorf("spread %v to %v, want 0.5 to 0.9", lowest, highest)
	}
}

func TestTargets(t *testing.T) {
	r := Result{Value: 4, Baseline: 8, Ratio: 0.5}
	tests := map[string]struct {
		target Target
		met    bool
	}{
		"none":                    {Target{}, true},
		"a ratio reached":         {AtLeast(0.5), true},
		"a ratio missed":          {AtLeast(0.51), false},
		"a ratio kept below":      {RatioAtMost(0.5), true},
		"a ratio above its bound": {RatioAtMost(0.49), false},
		"a value kept below":      {ValueAtMost(4), true},
		"a value above its bound": {ValueAtMost(3.9), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.target.Met(r); got != tc.met {
				t.Errorf("%v is met: %v, want %v", tc.target, got, tc.met)
			}
		})
	}
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var samples []time.Duration
	for i := range 100 {
		samples = append(samples, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 0.995: 100, 1: 100} {
		if got := Quantile(samples, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 || Median(nil) != 0 {
		t.Error("nothing has no middle")
	}
	if got := Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
}

func TestFiguresAreWrittenAsTableAndAsJSON(t *testing.T) {
	r := Spec{Name: "x", Unit: "ms", Against: "a loop", Target: ValueAtMost(1)}.Of([]Pair{{Value: 1.5, Baseline: 0.5}}, "")
	var text, lines strings.Builder
	table := Table(&text)
	for range 2 {
		if err := table.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	want := `| figure | value | unit | baseline | ratio | lowest–highest | wanted | against |
| --- | --: | --- | --: | --: | --: | --- | --- |
| x | 1.50 | ms | 0.50 | 3 | 3–3 | value ≤ 1 (missed) | a loop |
| x | 1.50 | ms | 0.50 | 3 | 3–3 | value ≤ 1 (missed) | a loop |
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if err := JSON(&lines).Write(r); err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal([]byte(lines.String()), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("figure after its way through JSON (-want +got):\n%s", diff)
	}
}
