package runtime

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Health is a service's named readiness checks: it is ready while each that was set is nil, and not
// before the first was. It is safe for concurrent use.
type Health struct {
	grpc *health.Server

	mu     sync.Mutex
	checks map[string]error
}

// NewHealth returns a Health that is not ready.
func NewHealth() *Health {
	h := &Health{grpc: health.NewServer(), checks: map[string]error{}}
	h.grpc.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// Set says how the named part is: nil for ready, an error that says why it is not. It is told to gRPC's
// health service too.
func (h *Health) Set(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[name] = err
	status := healthpb.HealthCheckResponse_SERVING
	if ready, _ := h.ready(); !ready {
		status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	h.grpc.SetServingStatus("", status)
}

// Ready returns whether all is well, and what is not, by name.
func (h *Health) Ready() (bool, map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ready()
}

// ready is Ready with mu held.
func (h *Health) ready() (bool, map[string]string) {
	why := map[string]string{}
	for name, err := range h.checks {
		if err != nil {
			why[name] = err.Error()
		}
	}
	return len(h.checks) > 0 && len(why) == 0, why
}

// readiness is what /healthz and /readyz answer.
type readiness struct {
	Status  string            `json:"status"`
	Reasons map[string]string `json:"reasons,omitempty"` // what is not ready, and why
}

// Handler serves /healthz (the process lives), /readyz (it serves, or why not) and /metrics.
func (h *Health) Handler(metrics prometheus.Gatherer) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, readiness{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, why := h.Ready()
		switch {
		case ready:
			answer(w, http.StatusOK, readiness{Status: "ready"})
		case len(why) == 0:
			answer(w, http.StatusServiceUnavailable, readiness{Status: "starting"})
		default:
			answer(w, http.StatusServiceUnavailable, readiness{Status: "not ready", Reasons: why})
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func answer(w http.ResponseWriter, code int, body readiness) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a reader that has gone needs no answer
}
