package fleet

import (
	"sort"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/runtime"
)

// metrics gathers the registries of all parts as one, each part's metrics under a label that names it.
// What speaks of the process is taken once.
type metrics struct {
	mu    sync.Mutex
	names []string
	parts map[string]*prometheus.Registry
}

func newMetrics() *metrics { return &metrics{parts: map[string]*prometheus.Registry{}} }

// env makes the environment of one part: registry and health of its own, the process's logger.
func (m *metrics) env(name string, process runtime.Env) runtime.Env {
	env := runtime.NewEnv(name, process.Log.With("part", name))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = append(m.names, name)
	m.parts[name] = env.Metrics
	return env
}

// Gather implements prometheus.Gatherer.
func (m *metrics) Gather() ([]*dto.MetricFamily, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	families := map[string]*dto.MetricFamily{}
	for i, name := range m.names {
		gathered, err := m.parts[name].Gather()
		if err != nil {
			return nil, err
		}
		for _, f := range gathered {
			ofProcess := strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_")
			if ofProcess && i > 0 {
				continue
			}
			if !ofProcess {
				for _, metric := range f.Metric {
					metric.Label = append(metric.Label, &dto.LabelPair{Name: proto.String("part"), Value: proto.String(name)})
				}
			}
			if known := families[f.GetName()]; known != nil {
				known.Metric = append(known.Metric, f.Metric...)
			} else {
				families[f.GetName()] = f
			}
		}
	}
	out := make([]*dto.MetricFamily, 0, len(families))
	for _, f := range families {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].GetName() < out[j].GetName() })
	return out, nil
}
