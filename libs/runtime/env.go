package runtime

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// version is set when a binary is built for use.
var version = "dev"

// Version is the software's version.
func Version() string { return version }

// Env is what a running service is given: where it logs, counts and says how it is.
type Env struct {
	Name    string
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Health  *Health
	// Gatherer is what /metrics shows: Metrics, unless the service speaks for others too.
	Gatherer prometheus.Gatherer
}

// NewEnv returns the Env of a process: with metrics of the Go runtime, the process and the build. Any
// number may live in one process, for tests.
func NewEnv(name string, log *slog.Logger) Env {
	env := bare(name, log)
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "nova_build_info", Help: "Always 1; the labels say what runs.", ConstLabels: prometheus.Labels{"service": name, "version": version}})
	build.Set(1)
	env.Metrics.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return env
}

// Part returns the Env of one component of several in a process, say a star of a fleet in one process
// with the label "star". It has a registry and a health of its own, so that the same component may run
// many times; its metrics show in e's too, each with the labels, which no other part may share: /metrics
// refuses to show two metrics that cannot be told apart.
func (e Env) Part(name string, labels prometheus.Labels) Env {
	log := e.Log
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		log = log.With(key, labels[key])
	}
	part := bare(name, log)
	// Still empty, it names no metric ahead; so what it gains later is checked when it is gathered.
	prometheus.WrapRegistererWith(labels, e.Metrics).MustRegister(part.Metrics)
	return part
}

func bare(name string, log *slog.Logger) Env {
	metrics := prometheus.NewRegistry()
	return Env{Name: name, Log: log, Metrics: metrics, Health: NewHealth(), Gatherer: metrics}
}
