package copystats_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/copystats"
)

func TestEachFactIsCountedUnderItsName(t *testing.T) {
	r := prometheus.NewRegistry()
	s, err := copystats.NewRepairs(r, slog.New(slog.DiscardHandler), func() int { return 7 })
	if err != nil {
		t.Fatal(err)
	}
	for shown, n := range map[flightlog.Shown]int{flightlog.ShowsDamaged: 1, flightlog.ShowsNewer: 1, flightlog.ShowsMissing: 1, flightlog.ShowsPoison: 2} {
		for range n {
			s.Found("a", "k", shown)
		}
	}
	s.Mended("a", "k", flightlog.ShowsDamaged)
	s.Unmended("b", "k", errors.New("full"))
	s.Unmended("", "k", flightlog.ErrLost)
	s.Dropped("a", "k")
	want := `
# HELP nova_copy_damaged_total Objects found on a copy that are not the flight their slot holds.
# TYPE nova_copy_damaged_total counter
nova_copy_damaged_total{copy="a"} 2
# HELP nova_copy_missing_total Flights found missing on a copy: nothing, or a poison, was in their slot.
# TYPE nova_copy_missing_total counter
nova_copy_missing_total{copy="a"} 3
# HELP nova_copy_repairs_dropped_total Faults that found no room in the queue of repairs; a scrub finds them.
# TYPE nova_copy_repairs_dropped_total counter
nova_copy_repairs_dropped_total 1
# HELP nova_copy_repairs_failed_total Repairs that a copy did not take.
# TYPE nova_copy_repairs_failed_total counter
nova_copy_repairs_failed_total{copy="b"} 1
# HELP nova_copy_repairs_total Flights that a copy was given again from another.
# TYPE nova_copy_repairs_total counter
nova_copy_repairs_total{copy="a"} 1
# HELP nova_copy_repairs_waiting Faults of copies that wait for their repair.
# TYPE nova_copy_repairs_waiting gauge
nova_copy_repairs_waiting 7
# HELP nova_flights_lost_total Looks at a slot whose flight no copy that answered held whole. Above 0 needs a person.
# TYPE nova_flights_lost_total counter
nova_flights_lost_total 1
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
