package ctl

import (
	"strings"
	"testing"

	"nova.internal/libs/api/novav1"
)

func TestAStarThatHasNotReportedHasNoFigures(t *testing.T) {
	r := reported(&novav1.FleetStar{Star: &novav1.StarRow{Star: "a"}})
	if got := strings.Join(r.row(), " "); got != "a - - - - - - - ok" {
		t.Errorf("row %q", got)
	}
	if r.Leaders != nil || r.Saturation != nil {
		t.Error("figures without a report")
	}
}

func TestAStarsStateNamesEveryFlag(t *testing.T) {
	r := reported(&novav1.FleetStar{
		Star:  &novav1.StarRow{Star: "a", Saturated: true, Draining: novav1.Draining_DRAINING_EXIT, Ineligible: "storage is away"},
		Stats: &novav1.StatsRow{Stranded: true, Drained: true},
	})
	if got := r.state(); got != "saturated, draining (exit), stranded, drained, ineligible: storage is away" {
		t.Errorf("state %q", got)
	}
	if !r.Draining || r.Drain != "exit" {
		t.Errorf("draining %v, drain %q", r.Draining, r.Drain)
	}
}

func TestRatesAreForPeople(t *testing.T) {
	for bytes, want := range map[float64]string{0: "0 B/s", 1023: "1023 B/s", 1024: "1 KiB/s", 1536 * 1024: "1.5 MiB/s", 3 << 30: "3 GiB/s"} {
		if got := rate(bytes); got != want {
			t.Errorf("rate(%v) = %q, want %q", bytes, got, want)
		}
	}
}
