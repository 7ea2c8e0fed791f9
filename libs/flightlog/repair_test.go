package flightlog_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nova.internal/libs/flightlog"
)

func TestPlanRepair(t *testing.T) {
	const (
		away, whole, damaged = flightlog.ShowsUnknown, flightlog.ShowsWhole, flightlog.ShowsDamaged
		missing, poison      = flightlog.ShowsMissing, flightlog.ShowsPoison
		newer                = flightlog.ShowsNewer
	)
	type shown = []flightlog.Shown
	none := flightlog.RepairPlan{Source: -1}
	lost := flightlog.RepairPlan{Verdict: flightlog.Lost, Source: -1}
	tests := map[string]struct {
		undecided bool
		shown     shown
		other     int // copy whose whole flight is another one
		want      flightlog.RepairPlan
	}{
		"all hold it":                   {shown: shown{whole, whole, whole}, want: flightlog.RepairPlan{Verdict: flightlog.Sound}},
		"one is away":                   {shown: shown{away, whole, whole}, want: flightlog.RepairPlan{Verdict: flightlog.Sound, Source: 1}},
		"one is damaged":                {shown: shown{whole, damaged, whole}, want: flightlog.RepairPlan{Verdict: flightlog.Mend, Overwrite: []int{1}}},
		"one is missing":                {shown: shown{missing, whole, whole}, want: flightlog.RepairPlan{Verdict: flightlog.Mend, Source: 1, Fill: []int{0}}},
		"one of each":                   {shown: shown{missing, damaged, whole}, want: flightlog.RepairPlan{Verdict: flightlog.Mend, Source: 2, Fill: []int{0}, Overwrite: []int{1}}},
		"a fencer's poison gives way":   {shown: shown{whole, whole, poison}, want: flightlog.RepairPlan{Verdict: flightlog.Mend, Overwrite: []int{2}}},
		"a damaged version gives way":   {shown: shown{newer, whole, away}, want: flightlog.RepairPlan{Verdict: flightlog.Mend, Source: 1, Overwrite: []int{0}}},
		"none is whole":                 {shown: shown{damaged, missing, away}, want: lost},
		"nothing anywhere":              {shown: shown{missing, missing, missing}, want: lost},
		"newer software's slot":         {shown: shown{newer, newer, missing}, want: none},
		"two flights in one slot":       {shown: shown{whole, whole, damaged}, other: 1, want: flightlog.RepairPlan{Verdict: flightlog.Torn, Source: -1}},
		"one copy, whole":               {shown: shown{whole}, want: flightlog.RepairPlan{Verdict: flightlog.Sound}},
		"one copy, damaged":             {shown: shown{damaged}, want: lost},
		"undecided: a hole":             {undecided: true, shown: shown{whole, missing, whole}, want: none},
		"undecided: a poison":           {undecided: true, shown: shown{whole, poison, poison}, want: none},
		"undecided: damage":             {undecided: true, shown: shown{whole, damaged, whole}, want: none},
		"undecided: two flights":        {undecided: true, shown: shown{whole, whole, damaged}, other: 1, want: none},
		"five, three of them not right": {shown: shown{poison, missing, whole, damaged, whole}, want: flightlog.RepairPlan{Verdict: flightlog.Mend, Source: 2, Fill: []int{1}, Overwrite: []int{0, 3}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			looks := make([]flightlog.Look, len(tc.shown))
			for i, s := range tc.shown {
				if looks[i].Shown = s; s == whole {
					looks[i].Nonce = [16]byte{1}
				}
			}
			if tc.other > 0 {
				looks[tc.other].Nonce = [16]byte{2}
			}
			if diff := cmp.Diff(tc.want, flightlog.PlanRepair(!tc.undecided, looks)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the copies show: what is written was read whole, no whole object and no copy that is away is
// written to, create-if-absent where there is nothing and only there, and afterwards every copy that
// answers holds the flight, so that a second look has nothing to do.
func TestAPlanWritesOnlyWhereTheFlightIsNotAndOnceIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "copies")
		looks := make([]flightlog.Look, n)
		for i := range looks {
			looks[i].Shown = flightlog.Shown(rapid.IntRange(0, int(flightlog.ShowsNewer)).Draw(t, "shown"))
			if looks[i].Shown == flightlog.ShowsWhole {
				looks[i].Nonce = [16]byte{byte(rapid.IntRange(1, 2).Draw(t, "nonce"))}
			}
		}
		if p := flightlog.PlanRepair(false, looks); len(p.Fill)+len(p.Overwrite) > 0 {
			t.Fatalf("an undecided slot: %+v", p)
		}
		p := flightlog.PlanRepair(true, looks)
		writes := append(slices.Clone(p.Fill), p.Overwrite...)
		if (p.Verdict == flightlog.Mend) != (len(writes) > 0) {
			t.Fatalf("%v of %+v", p, looks)
		}
		if len(writes) > 0 && (p.Source < 0 || looks[p.Source].Shown != flightlog.ShowsWhole) {
			t.Fatalf("source of %+v in %+v", p, looks)
		}
		after := slices.Clone(looks)
		for _, i := range writes {
			if s := looks[i].Shown; s == flightlog.ShowsWhole || s == flightlog.ShowsUnknown || (s == flightlog.ShowsMissing) != slices.Contains(p.Fill, i) {
				t.Fatalf("%+v writes to copy %d of %+v", p, i, looks)
			}
			after[i] = looks[p.Source]
		}
		if again := flightlog.PlanRepair(true, after); p.Verdict == flightlog.Mend && again.Verdict != flightlog.Sound {
			t.Fatalf("after %+v of %+v the verdict is %v", p, looks, again.Verdict)
		}
	})
}
