package runtime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// quiet is an Env of its own that logs nowhere.
func quiet() Env { return NewEnv("svc", slog.New(slog.DiscardHandler)) }

// placer is a service whose one unary call and one stream do what the test says.
type placer struct {
	novav1.UnimplementedPlacerServer
	resolve func(context.Context) (*novav1.ResolveResponse, error)
}

func (p placer) Resolve(ctx context.Context, _ *novav1.ResolveRequest) (*novav1.ResolveResponse, error) {
	return p.resolve(ctx)
}

type streams struct {
	novav1.UnimplementedStreamsServer
	read func(grpc.ServerStreamingServer[novav1.ReadResponse]) error
}

func (s streams) Read(_ *novav1.ReadRequest, out grpc.ServerStreamingServer[novav1.ReadResponse]) error {
	return s.read(out)
}

// serve runs the actors until the test ends or the returned function is called, which returns what the
// group returned.
func serve(t *testing.T, add func(g *Group)) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var g Group
	g.Add(Until(ctx))
	add(&g)
	ended := make(chan error, 1)
	go func() { ended <- g.Run() }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// grpcServer serves s and connects to it.
func grpcServer(t *testing.T, s *grpc.Server) (cc *grpc.ClientConn, stop func() error) {
	t.Helper()
	lis, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop = serve(t, func(g *Group) { g.Add(GRPC(lis, s)) })
	return dial(t, lis.Addr().String()), stop
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(address, api.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func TestACallThatPanicsIsAnsweredInternalAndTheServerServesOn(t *testing.T) {
	var logged bytes.Buffer
	env := NewEnv("svc", slog.New(slog.NewTextHandler(&logged, nil)))
	s := NewServer(env)
	fail := true
	novav1.RegisterPlacerServer(s, placer{resolve: func(context.Context) (*novav1.ResolveResponse, error) {
		if fail {
			panic("index out of range")
		}
		return &novav1.ResolveResponse{Designate: "a"}, nil
	}})
	novav1.RegisterStreamsServer(s, streams{read: func(grpc.ServerStreamingServer[novav1.ReadResponse]) error { panic(errors.New("nil map")) }})
	cc, stop := grpcServer(t, s)

	if _, err := novav1.NewPlacerClient(cc).Resolve(t.Context(), &novav1.ResolveRequest{}); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "index") {
		t.Errorf("Resolve = %v, want INTERNAL without the server's inside", err)
	}
	read, err := novav1.NewStreamsClient(cc).Read(t.Context(), &novav1.ReadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("Read = %v, want INTERNAL", err)
	}
	fail = false
	if r, err := novav1.NewPlacerClient(cc).Resolve(t.Context(), &novav1.ResolveRequest{}); err != nil || r.GetDesignate() != "a" {
		t.Errorf("the call after the panic: %v, %v", r, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"index out of range", "nil map", "server_test.go", "/nova.v1.Placer/Resolve"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, logged.String())
		}
	}
	err = testutil.GatherAndCompare(env.Metrics, strings.NewReader(`
# HELP nova_grpc_calls_total Calls ended, by method and code.
# TYPE nova_grpc_calls_total counter
nova_grpc_calls_total{code="Internal",method="/nova.v1.Placer/Resolve"} 1
nova_grpc_calls_total{code="Internal",method="/nova.v1.Streams/Read"} 1
nova_grpc_calls_total{code="OK",method="/nova.v1.Placer/Resolve"} 1
# HELP nova_grpc_panics_total Calls that panicked and were answered INTERNAL, by method.
# TYPE nova_grpc_panics_total counter
nova_grpc_panics_total{method="/nova.v1.Placer/Resolve"} 1
nova_grpc_panics_total{method="/nova.v1.Streams/Read"} 1
`), "nova_grpc_calls_total", "nova_grpc_panics_total")
	if err != nil {
		t.Error(err)
	}
}

func TestARefusalIsCountedByItsCodeAndArrivesWithItsDetails(t *testing.T) {
	env := quiet()
	s := NewServer(env)
	novav1.RegisterPlacerServer(s, placer{resolve: func(context.Context) (*novav1.ResolveResponse, error) {
		return nil, &api.BoundError{Name: api.BoundFleetCapacity, RetryAfter: time.Second}
	}})
	cc, stop := grpcServer(t, s)
	_, err := novav1.NewPlacerClient(cc).Resolve(t.Context(), &novav1.ResolveRequest{})
	var bound *api.BoundError
	if !errors.As(api.FromError(err), &bound) || bound.RetryAfter != time.Second {
		t.Errorf("Resolve = %v, want the refusal with its details", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	m := newCallMetrics(env.Metrics) // the same collectors
	if n := testutil.ToFloat64(m.total.WithLabelValues("/nova.v1.Placer/Resolve", "ResourceExhausted")); n != 1 {
		t.Errorf("counted %v calls as ResourceExhausted, want 1", n)
	}
	if n := testutil.CollectAndCount(m.seconds); n != 1 {
		t.Errorf("%d latency series, want 1", n)
	}
}

func TestServersOfOneEnvShareMetricsAndServersOfTwoDoNot(t *testing.T) {
	one, other := quiet(), quiet()
	for range 2 {
		NewServer(one).Stop()
	}
	NewServer(other).Stop()
	newCallMetrics(one.Metrics).total.WithLabelValues("m", "OK").Inc()
	if n := testutil.ToFloat64(newCallMetrics(one.Metrics).total.WithLabelValues("m", "OK")); n != 1 {
		t.Errorf("the second server of the same Env counts by itself: %v", n)
	}
	if n := testutil.ToFloat64(newCallMetrics(other.Metrics).total.WithLabelValues("m", "OK")); n != 0 {
		t.Errorf("another Env counted this one's call")
	}
}

func TestAPartsMetricsShowInItsParentUnderItsLabels(t *testing.T) {
	env := quiet()
	for _, name := range []string{"star-1", "star-2"} {
		part := env.Part("star", prometheus.Labels{"star": name})
		// Registered after the part was made, as components do.
		led := prometheus.NewGauge(prometheus.GaugeOpts{Name: "nova_led", Help: "Streams led."})
		part.Metrics.MustRegister(led)
		led.Set(float64(len(name)))
		part.Health.Set("serving", nil)
	}
	want := `
# HELP nova_led Streams led.
# TYPE nova_led gauge
nova_led{star="star-1"} 6
nova_led{star="star-2"} 6
`
	if err := testutil.GatherAndCompare(env.Gatherer, strings.NewReader(want), "nova_led"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(env.Gatherer, "go_goroutines", "nova_build_info"); n != 2 || err != nil {
		t.Errorf("%d series speak of the process (%v), want one of each kind", n, err)
	}
	if ready, _ := env.Health.Ready(); ready {
		t.Error("a part's health spoke for the process")
	}
}

func TestHealth(t *testing.T) {
	h := NewHealth()
	handler := h.Handler(prometheus.NewRegistry())
	want := func(step string, code int, body string, serving healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if diff := cmp.Diff(body+"\n", w.Body.String()); w.Code != code || diff != "" {
			t.Errorf("%s: /readyz is %d (-want +got):\n%s", step, w.Code, diff)
		}
		r, err := h.grpc.Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil || r.GetStatus() != serving {
			t.Errorf("%s: gRPC health is %v, %v; want %v", step, r.GetStatus(), err, serving)
		}
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: /healthz is %d", step, w.Code)
		}
	}
	const serving, not = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	want("before any check", 503, `{"status":"starting"}`, not)
	h.Set("oxia", errors.New("no answer"))
	want("one part is not well", 503, `{"status":"not ready","reasons":{"oxia":"no answer"}}`, not)
	h.Set("serving", nil)
	want("another is", 503, `{"status":"not ready","reasons":{"oxia":"no answer"}}`, not)
	h.Set("oxia", nil)
	want("all are", 200, `{"status":"ready"}`, serving)
	h.Set("serving", errors.New("stopping"))
	want("one stops", 503, `{"status":"not ready","reasons":{"serving":"stopping"}}`, not)
}

func TestHTTPServesHealthAndMetricsAndStopsWithTheGroup(t *testing.T) {
	lis, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	env := quiet()
	env.Health.Set("serving", nil)
	stop := serve(t, func(g *Group) { g.Add(HTTP(lis, env.Health.Handler(env.Gatherer))) })
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{"/readyz": `{"status":"ready"}`, "/metrics": `nova_build_info{service="svc",version="dev"} 1`} {
		r, err := client.Get("http://" + lis.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s is %d, %v: %.200s", path, r.StatusCode, err, body)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + lis.Addr().String()); err == nil {
		t.Error("it serves on")
	}
}
