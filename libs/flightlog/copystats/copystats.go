// Package copystats turns what a repairer finds and does into counters and log lines, in the same way in
// every service that runs one. Its labels are copies, of which a fleet has a handful.
package copystats

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"nova.internal/libs/flightlog"
)

var _ flightlog.RepairReport = (*Repairs)(nil)

// Repairs is a flightlog.RepairReport. It is safe for concurrent use.
type Repairs struct {
	log                                *slog.Logger
	damaged, missing, mended, unmended *prometheus.CounterVec // by copy
	lost, dropped                      prometheus.Counter
	bad, good                          rate.Sometimes // log lines that a broken disk would repeat
}

// NewRepairs registers the counters. waiting says how many faults are queued now.
func NewRepairs(r prometheus.Registerer, log *slog.Logger, waiting func() int) (*Repairs, error) {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"copy"})
	}
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	s := &Repairs{
		log:      log,
		damaged:  vec("nova_copy_damaged_total", "Objects found on a copy that are not the flight their slot holds."),
		missing:  vec("nova_copy_missing_total", "Flights found missing on a copy: nothing, or a poison, was in their slot."),
		mended:   vec("nova_copy_repairs_total", "Flights that a copy was given again from another."),
		unmended: vec("nova_copy_repairs_failed_total", "Repairs that a copy did not take."),
		lost:     count("nova_flights_lost_total", "Looks at a slot whose flight no copy that answered held whole. Above 0 needs a person."),
		dropped:  count("nova_copy_repairs_dropped_total", "Faults that found no room in the queue of repairs; a scrub finds them."),
		bad:      rate.Sometimes{Interval: time.Second}, good: rate.Sometimes{Interval: time.Second},
	}
	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nova_copy_repairs_waiting", Help: "Faults of copies that wait for their repair."}, func() float64 { return float64(waiting()) })
	var errs []error
	for _, c := range []prometheus.Collector{s.damaged, s.missing, s.mended, s.unmended, s.lost, s.dropped, queue} {
		errs = append(errs, r.Register(c))
	}
	return s, errors.Join(errs...)
}

// Found counts an object that is not what it should be.
func (s *Repairs) Found(copy, key string, shown flightlog.Shown) {
	of := s.damaged
	if shown == flightlog.ShowsMissing || shown == flightlog.ShowsPoison {
		of = s.missing
	}
	of.WithLabelValues(copy).Inc()
	s.bad.Do(func() {
		s.log.Warn("a copy does not hold a flight that it should", "copy", copy, "key", key, "shows", shown.String())
	})
}

// Mended counts a repair.
func (s *Repairs) Mended(copy, key string, was flightlog.Shown) {
	s.mended.WithLabelValues(copy).Inc()
	s.good.Do(func() {
		s.log.Info("a copy was given a flight again", "copy", copy, "key", key, "was", was.String())
	})
}

// Unmended counts a repair that failed, and says aloud when a flight is lost.
func (s *Repairs) Unmended(copy, key string, err error) {
	if copy == "" {
		s.lost.Inc()
		s.log.Error("no copy that answers can give this flight", "key", key, "err", err)
		return
	}
	s.unmended.WithLabelValues(copy).Inc()
	s.bad.Do(func() { s.log.Warn("a copy could not be repaired", "copy", copy, "key", key, "err", err) })
}

// Dropped counts a fault that was not queued.
func (s *Repairs) Dropped(copy, key string) { s.dropped.Inc() }
