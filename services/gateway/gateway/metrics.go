package gateway

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the gateway's own; calls by method are counted by the server.
type metrics struct {
	opens     *prometheus.CounterVec // by outcome
	redirects prometheus.Counter
	moved     prometheus.Counter
	batches   *prometheus.CounterVec // read, by where they came from
	shed      prometheus.Counter
}

func newMetrics(r prometheus.Registerer, handles *atomic.Int64) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := metrics{
		opens:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nova_gateway_opens_total", Help: "Producer opens, by outcome."}, []string{"outcome"}),
		redirects: counter("nova_gateway_redirects_total", "NOT_OWNER answers that an open followed."),
		moved:     counter("nova_gateway_moved_total", "Producer handles whose leadership moved away."),
		batches:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nova_gateway_read_batches_total", Help: "Batches sent to readers, by source: copies or star."}, []string{"source"}),
		shed:      counter("nova_gateway_shed_total", "Producer handles refused at --max-producer-handles."),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nova_gateway_handles", Help: "Producer handles open now."}, func() float64 { return float64(handles.Load()) })
	return m, errors.Join(r.Register(m.opens), r.Register(m.redirects), r.Register(m.moved), r.Register(m.batches), r.Register(m.shed), r.Register(open))
}
