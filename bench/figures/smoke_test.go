package figures

import (
	"math"
	"testing"
	"time"

	"nova.internal/bench/figure"
)

// tiny is the least with which each figure is still what its name says.
func tiny() Size {
	return Size{
		Rounds: 1, RecordBytes: 1024, FlightBytes: 256 << 10, Bytes: 1 << 20, For: 200 * time.Millisecond,
		Many: 8, Most: 16, Samples: 20, Unabsorbed: 300 * time.Millisecond,
	}
}

func TestEveryFigureIsMeasured(t *testing.T) {
	for _, f := range List() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			e := &Env{Size: tiny(), Dir: t.TempDir(), Log: testLog{t}}
			r, err := f.Measure(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			wantFigure(t, f, r)
		})
	}
}

// wantFigure checks that a figure says something.
func wantFigure(t *testing.T, f Figure, r figure.Result) {
	t.Helper()
	for what, v := range map[string]float64{"value": r.Value, "baseline": r.Baseline, "ratio": r.Ratio} {
		// A follower may have every record before it is acknowledged.
		if v < 0 || v == 0 && f.Name != "follow-latency" || math.IsInf(v, 0) || math.IsNaN(v) {
			t.Errorf("%s is %v", what, v)
		}
	}
	if r.Name != f.Name || r.Unit == "" || r.Against == "" || len(r.Rounds) == 0 {
		t.Errorf("an incomplete figure: %+v", r)
	}
	if (r.Met == nil) != (f.Target.Of == figure.Nothing) {
		t.Errorf("met is %v of target %q", r.Met, f.Target)
	}
}

func TestPick(t *testing.T) {
	all, err := Pick("")
	if err != nil || len(all) != len(List()) {
		t.Fatalf("no pattern picks %d figures, %v", len(all), err)
	}
	some, err := Pick("append-direct-*,loop-4")
	if err != nil || len(some) != 3 || some[0].Name != "append-direct-1" || some[2].Name != "loop-4" {
		t.Errorf("picked %v, %v", some, err)
	}
	if _, err := Pick("append-direct-1,nothing"); err == nil {
		t.Error("a figure that does not exist was picked")
	}
	names := map[string]bool{}
	for _, f := range all {
		if names[f.Name] {
			t.Errorf("two figures are called %s", f.Name)
		}
		names[f.Name] = true
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(string(p))
	return len(p), nil
}
