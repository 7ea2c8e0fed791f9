package placement_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/placement"
)

func TestDecide(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	rows := []*novav1.StarRow{{Star: "a", Address: "a:1"}, {Star: "b", Address: "b:1"}, {Star: "full", Address: "full:1", Saturated: true}}
	fleet := placement.FromRows(7, rows, nil)
	d, err := placement.Designate(fleet, "stream")
	if err != nil {
		t.Fatal(err)
	}
	first, second := d.Star.Name, d.RunnerUp().Star.Name
	candidates := []*novav1.Candidate{{Star: first, Score: placement.Score(first, "stream")}, {Star: second, Score: placement.Score(second, "stream")}}
	plain := &novav1.ResolveResponse{Designate: first, DesignateAddress: first + ":1", RunnerUp: second, Candidates: candidates, Revision: 7}
	but := func(change func(r *novav1.ResolveResponse)) *novav1.ResolveResponse {
		r := &novav1.ResolveResponse{Designate: first, DesignateAddress: first + ":1", RunnerUp: second, Candidates: candidates, Revision: 7}
		change(r)
		return r
	}
	next := func(star string, until int64) *novav1.Successor {
		return &novav1.Successor{Star: star, UntilUnixMs: until}
	}
	tests := map[string]struct {
		holder    string
		successor *novav1.Successor
		without   []string
		want      *novav1.ResolveResponse
	}{
		"a vacant stream goes where placement says": {want: plain},
		"a holder is named and changes nothing else": {holder: second, want: but(func(r *novav1.ResolveResponse) {
			r.Holder, r.HolderAddress = second, second+":1"
		})},
		"a holder stays one when it may lead nothing new": {holder: "full", want: but(func(r *novav1.ResolveResponse) {
			r.Holder, r.HolderAddress = "full", "full:1"
		})},
		"a holder that has left the fleet is none": {holder: "gone", want: plain},
		"a holder that asks without itself": {holder: first, without: []string{first}, want: &novav1.ResolveResponse{
			Designate: second, DesignateAddress: second + ":1", Candidates: candidates[1:], Revision: 7,
		}},
		"a successor binds": {successor: next(second, 1_000_001), want: but(func(r *novav1.ResolveResponse) {
			r.Designate, r.DesignateAddress, r.RunnerUp, r.Successor = second, second+":1", first, true
		})},
		"also where placement says the same": {successor: next(first, 1_000_001), want: but(func(r *novav1.ResolveResponse) {
			r.Successor = true
		})},
		"until it runs out":              {successor: next(second, 1_000_000), want: plain},
		"unless it may lead nothing new": {successor: next("full", 2_000_000), want: plain},
		"unless it has left":             {successor: next("gone", 2_000_000), want: plain},
		"unless it names nobody":         {successor: next("", 2_000_000), want: plain},
		"nobody is sent to whom he left out": {successor: next(second, 2_000_000), without: []string{second}, want: but(func(r *novav1.ResolveResponse) {
			r.RunnerUp, r.Candidates = "", candidates[:1]
		})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := placement.Decide(fleet, "stream", tc.holder, tc.successor, now, tc.without...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideTellsTheNumbersThatDecided(t *testing.T) {
	fleet := pair("stream", 500*mib, 10*mib)
	d, err := placement.Designate(fleet, "stream")
	if err != nil {
		t.Fatal(err)
	}
	r, err := placement.Decide(fleet, "stream", "", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c := r.GetCandidates()
	if r.GetDesignate() != d.Second.Star.Name || r.GetRunnerUp() != d.First.Star.Name || len(c) != 2 || c[0].GetStar() != d.First.Star.Name ||
		c[0].GetLoadBytesPerSecond() != 500*mib || c[1].GetLoadBytesPerSecond() != 10*mib || c[0].GetScore() <= c[1].GetScore() {
		t.Errorf("Decide = %v, which does not say why %s leads", r, d.Star.Name)
	}
}

func TestAFullFleetRefusesOnlyWhatNobodyLeads(t *testing.T) {
	fleet := placement.FromRows(1, []*novav1.StarRow{{Star: "full", Address: "full:1", Saturated: true}}, nil)
	if _, err := placement.Decide(fleet, "stream", "", &novav1.Successor{Star: "full", UntilUnixMs: math.MaxInt64}, time.Now()); !errors.Is(err, placement.ErrAtCapacity) {
		t.Errorf("a vacant stream of a full fleet: %v, want at capacity", err)
	}
	r, err := placement.Decide(fleet, "stream", "full", nil, time.Now())
	if err != nil || r.GetHolder() != "full" || r.GetHolderAddress() != "full:1" || r.GetDesignate() != "" {
		t.Errorf("a led stream of a full fleet: %v, %v", r, err)
	}
}

func TestFromRows(t *testing.T) {
	got := placement.FromRows(9,
		[]*novav1.StarRow{{Star: "a", Address: "a:1", Location: "eu"}, {Star: "new"}, {Star: "aside", Ineligible: "its disk is slow"}},
		[]*novav1.StatsRow{{Star: "a", AppendBytesPerSecond: 5, HotReadBytesPerSecond: 7}, {Star: "gone", AppendBytesPerSecond: 9}})
	want := placement.Snapshot{Revision: 9, Stars: []placement.Star{
		{Name: "a", Address: "a:1", Location: "eu", Load: 12, Eligible: true},
		{Name: "new", Eligible: true},
		{Name: "aside"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("FromRows (-want +got):\n%s", diff)
	}
}
