package placer

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// metrics counts what was answered. Labels name outcomes only: never a stream, never a star.
type metrics struct{ resolved *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer, s *Server) *metrics {
	m := &metrics{resolved: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nova_placer_resolved_total",
		Help: "Answers by outcome: holder (led), hash, load (the runner-up carries less), successor (a handoff's), full (at capacity), refused, unavailable.",
	}, []string{"outcome"})}
	r.MustRegister(m.resolved,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nova_placer_snapshot_age_seconds", Help: "Age of the registry snapshot that is decided on."}, func() float64 {
			return s.age().Seconds()
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nova_placer_eligible_stars", Help: "Stars that may take a new leadership, by the snapshot."}, func() float64 {
			n := 0
			for _, star := range s.view.now().Stars {
				if star.Eligible {
					n++
				}
			}
			return float64(n)
		}))
	return m
}

func (m *metrics) count(r *novav1.ResolveResponse, err error) {
	m.resolved.WithLabelValues(outcome(r, err)).Inc()
}

func outcome(r *novav1.ResolveResponse, err error) string {
	var bound *api.BoundError
	var field *api.FieldError
	switch {
	case errors.As(err, &bound):
		return "full"
	case errors.As(err, &field):
		return "refused"
	case err != nil:
		return "unavailable"
	case r.GetHolder() != "":
		return "holder"
	case r.GetSuccessor():
		return "successor"
	case r.GetDesignate() != r.GetCandidates()[0].GetStar():
		return "load"
	}
	return "hash"
}
