package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
)

// maxCalls bounds the calls that one connection may have open.
const maxCalls = 16384

// NewServer returns a gRPC server with nova's codec and refusals, the health service, metrics of calls by
// method and code, and a net under each call: one that panics answers INTERNAL. Servers of one Env share
// their metrics.
func NewServer(env Env) *grpc.Server {
	m := newCallMetrics(env.Metrics)
	options := append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
			defer m.done(info.FullMethod, time.Now(), &err)
			defer m.survive(env.Log, info.FullMethod, &err)
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer m.done(info.FullMethod, time.Now(), &err)
			defer m.survive(env.Log, info.FullMethod, &err)
			return next(srv, ss)
		}),
		grpc.MaxConcurrentStreams(maxCalls),
	}, api.ServerOptions()...)
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, env.Health.grpc)
	return server
}

// callMetrics counts calls. Its labels are bounded by the contract: no stream, star or caller.
type callMetrics struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	panics  *prometheus.CounterVec
}

func newCallMetrics(r prometheus.Registerer) *callMetrics {
	return &callMetrics{
		total:   register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nova_grpc_calls_total", Help: "Calls ended, by method and code."}, []string{"method", "code"})),
		seconds: register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "nova_grpc_call_seconds", Help: "How long calls took, by method and code.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"method", "code"})),
		panics:  register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nova_grpc_panics_total", Help: "Calls that panicked and were answered INTERNAL, by method."}, []string{"method"})),
	}
}

// register registers c, or returns the same collector as another server of the Env registered it.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	var known prometheus.AlreadyRegisteredError
	switch err := r.Register(c); {
	case errors.As(err, &known):
		return known.ExistingCollector.(C)
	case err != nil:
		panic(err) // two of nova's own metrics disagree: no input leads here
	}
	return c
}

func (m *callMetrics) done(method string, began time.Time, err *error) {
	code := api.Status(*err).Code().String()
	m.total.WithLabelValues(method, code).Inc()
	m.seconds.WithLabelValues(method, code).Observe(time.Since(began).Seconds())
}

// survive turns a panic of one call into its INTERNAL answer: the fleet's other streams must not pay for
// a fault in one call.
func (m *callMetrics) survive(log *slog.Logger, method string, err *error) {
	if p := recover(); p != nil {
		m.panics.WithLabelValues(method).Inc()
		log.Error("a call panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "the server met a fault of its own in %s; it is in its log", method)
	}
}
