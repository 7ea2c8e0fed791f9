package runtime

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
)

// maxCalls bounds the calls that one connection may have open.
const maxCalls = 16384

// NewServer returns a gRPC server with nova's codec and refusals, the health service, and metrics of
// calls by method and code.
func NewServer(env Env) *grpc.Server {
	m := newCallMetrics(env.Metrics)
	options := append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
			defer m.done(info.FullMethod, time.Now(), &err)
			defer survive(env, info.FullMethod, &err)
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer m.done(info.FullMethod, time.Now(), &err)
			defer survive(env, info.FullMethod, &err)
			return next(srv, ss)
		}),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, api.ServerOptions()...)
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, env.Health.grpc)
	return server
}

// survive turns a panic of one call into its INTERNAL answer: the fleet's other streams must not pay for
// a fault in one call.
func survive(env Env, method string, err *error) {
	if p := recover(); p != nil {
		env.Log.Error("a call panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "the server met a fault of its own in %s; it is in its log", method)
	}
}

type callMetrics struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newCallMetrics(r prometheus.Registerer) *callMetrics {
	m := &callMetrics{
		total:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nova_grpc_calls_total", Help: "Calls ended, by method and code."}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "nova_grpc_call_seconds", Help: "How long calls took, by method.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"method"}),
	}
	r.MustRegister(m.total, m.seconds)
	return m
}

func (m *callMetrics) done(method string, began time.Time, err *error) {
	m.total.WithLabelValues(method, api.Status(*err).Code().String()).Inc()
	m.seconds.WithLabelValues(method).Observe(time.Since(began).Seconds())
}
