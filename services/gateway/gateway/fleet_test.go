package gateway

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/events/eventstest"
	"nova.internal/libs/oxiaembed"
	"nova.internal/libs/runtime"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the embedded Oxia's own lines
	os.Exit(m.Run())
}

// testFleet is a real metastore, a gateway over it, and fake stars.
type testFleet struct {
	t    *testing.T
	cfg  Config
	meta *coord.Fleet

	recorder *eventstest.Recorder // told the gateway's events; nil: they go to NATS, if any
	gatherer prometheus.Gatherer  // what /metrics shows; nil: the gateway's own

	gateway *Gateway
	addrs   Addrs
	stop    func() // stops the gateway and waits for it
	streams novav1.StreamsClient
	admin   novav1.AdminClient
	client  *grpc.ClientConn
}

// newFleet starts the metastore; start starts the gateway.
func newFleet(t *testing.T, tweak func(*Config)) *testFleet {
	t.Helper()
	oxia, err := oxiaembed.Start(oxiaembed.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = oxia.Close() })
	f := &testFleet{t: t, cfg: DefaultConfig()}
	f.cfg.HTTP = "127.0.0.1:0"
	f.cfg.Oxia.Durable, f.cfg.Oxia.Ephemeral = oxia.Addr(), oxia.Addr()
	f.cfg.Oxia.SessionTimeout = 10 * time.Second
	if tweak != nil {
		tweak(&f.cfg)
	}
	f.meta = f.dial()
	return f
}

func (f *testFleet) dial() *coord.Fleet {
	f.t.Helper()
	c, err := coord.Dial(f.t.Context(), f.cfg.Oxia)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// start runs the gateway until stop or the test's end.
func (f *testFleet) start() *testFleet {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan Addrs, 1), make(chan error, 1)
	env := runtime.NewEnv("gateway", slog.New(slog.DiscardHandler))
	if f.gatherer != nil {
		env.Gatherer = f.gatherer
	}
	g, err := open(ctx, f.cfg, env)
	if err != nil {
		f.t.Fatal(err)
	}
	f.gateway = g
	if f.recorder != nil {
		g.report = f.recorder
	}
	go func() { done <- g.serve(ctx, env, func(a Addrs) { ready <- a }) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("the gateway ended with %v", err)
		}
		g.close()
	})
	f.t.Cleanup(f.stop)
	select {
	case f.addrs = <-ready:
	case <-time.After(20 * time.Second):
		f.t.Fatal("the gateway does not serve")
	}
	cc, err := grpc.NewClient("passthrough:///"+f.addrs.GRPC, api.DialOptions()...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cc.Close() })
	f.client = cc
	f.streams, f.admin = novav1.NewStreamsClient(cc), novav1.NewAdminClient(cc)
	return f
}

func (f *testFleet) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	f.t.Cleanup(cancel)
	return ctx
}

// create makes a stream's name.
func (f *testFleet) create(name string) *novav1.NameRow {
	f.t.Helper()
	return f.createAs(name, novav1.Class_CLASS_STANDARD)
}

// createAs makes a stream's name.
func (f *testFleet) createAs(name string, class novav1.Class) *novav1.NameRow {
	f.t.Helper()
	row, _, err := f.meta.Names().Create(f.ctx(), &novav1.NameRow{Name: name, Id: ulid.Make().String(), Mode: novav1.Mode_MODE_ANY, Class: class})
	if err != nil {
		f.t.Fatal(err)
	}
	return row
}

// setHead writes a stream's head whatever stands.
func (f *testFleet) setHead(h *novav1.HeadRow) {
	f.t.Helper()
	if _, err := f.meta.Rows().PutAny(f.ctx(), coord.HeadKey(h.GetId()), h); err != nil {
		f.t.Fatal(err)
	}
}

// clean is the head of a stream that was released in good order at that sequence.
func clean(id string, covered uint64) *novav1.HeadRow {
	return &novav1.HeadRow{
		Id: id, Epoch: 1, Covered: covered, Holder: &novav1.Holder{Epoch: 1, Star: "gone", Chain: "gone/I/standard"},
		Last: &novav1.LastSegment{End: covered, Epoch: 1, CleanRelease: true},
	}
}

// fakeStar is a star's gRPC surface, played by the test, with a real row in the registry.
type fakeStar struct {
	novav1.UnimplementedStreamsServer
	novav1.UnimplementedStarServer

	f      *testFleet
	name   string
	addr   string
	server *grpc.Server
	fleet  *coord.Fleet
	reg    *coord.Registration

	produce func(*novav1.Open, novav1.Streams_ProduceServer) error
	read    func(*novav1.ReadRequest, novav1.Streams_ReadServer) error
	settle  func(*novav1.SettleRequest) error
	handoff func(*novav1.HandoffRequest) (*novav1.HandoffResponse, error)
	next    uint64       // answered to Tail
	opening atomic.Int64 // how often Tail is refused first

	mu    sync.Mutex
	opens []*novav1.Open
	reads []*novav1.ReadRequest
}

// star starts a fake star that is in the registry; row may change what it says about itself.
func (f *testFleet) star(name string, row ...func(*novav1.StarRow)) *fakeStar {
	f.t.Helper()
	s := f.ghost(name)
	s.fleet = f.dial()
	r := &novav1.StarRow{Star: name, Address: s.addr, Incarnation: ulid.Make().String()}
	for _, change := range row {
		change(r)
	}
	reg, err := s.fleet.Register(f.ctx(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	s.reg = reg
	f.t.Cleanup(s.leave)
	return s
}

// leave takes the star out of the registry and ends its watch of its own row, which would go on reading
// through a closed client.
func (s *fakeStar) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.reg.Close(ctx); err != nil {
		s.f.t.Errorf("star %s did not leave: %v", s.name, err)
	}
}

// ghost is a fake star that the registry does not know.
func (f *testFleet) ghost(name string) *fakeStar {
	f.t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	s := &fakeStar{f: f, name: name, addr: lis.Addr().String(), server: grpc.NewServer(api.ServerOptions()...)}
	novav1.RegisterStreamsServer(s.server, s)
	novav1.RegisterStarServer(s.server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.server.Serve(lis)
	}()
	f.t.Cleanup(func() {
		s.server.Stop()
		<-served
	})
	return s
}

// lease takes the stream's lease for this star.
func (s *fakeStar) lease(id string) coord.Lease {
	s.f.t.Helper()
	l, err := s.fleet.Leases().Acquire(s.f.ctx(), id, false)
	if err != nil {
		s.f.t.Fatal(err)
	}
	return l
}

func (s *fakeStar) release(l coord.Lease) {
	s.f.t.Helper()
	if err := s.fleet.Leases().Release(s.f.ctx(), l); err != nil {
		s.f.t.Fatal(err)
	}
}

// opened are the opens that this star was asked for.
func (s *fakeStar) opened() []*novav1.Open {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*novav1.Open(nil), s.opens...)
}

func (s *fakeStar) asked() []*novav1.ReadRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*novav1.ReadRequest(nil), s.reads...)
}

func (s *fakeStar) Produce(call novav1.Streams_ProduceServer) error {
	m, err := call.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.opens = append(s.opens, m.GetOpen())
	s.mu.Unlock()
	return s.produce(m.GetOpen(), call)
}

func (s *fakeStar) Read(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
	s.mu.Lock()
	s.reads = append(s.reads, r)
	s.mu.Unlock()
	return s.read(r, call)
}

func (s *fakeStar) Settle(_ context.Context, r *novav1.SettleRequest) (*novav1.SettleResponse, error) {
	return &novav1.SettleResponse{}, s.settle(r)
}

func (s *fakeStar) Tail(context.Context, *novav1.TailRequest) (*novav1.TailResponse, error) {
	if s.opening.Add(-1) >= 0 {
		return nil, &api.RefusedError{Why: "star " + s.name + " does not lead the stream"}
	}
	return &novav1.TailResponse{Next: s.next, Epoch: 7}, nil
}

func (s *fakeStar) Handoff(_ context.Context, r *novav1.HandoffRequest) (*novav1.HandoffResponse, error) {
	return s.handoff(r)
}

// refuses makes a star answer every open by err.
func (s *fakeStar) refuses(err error) {
	s.produce = func(*novav1.Open, novav1.Streams_ProduceServer) error { return err }
}

// accepts makes a star take every open and acknowledge every batch.
func (s *fakeStar) accepts() {
	s.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error { return acknowledge(s.name, call) }
}

func acknowledge(star string, call novav1.Streams_ProduceServer) error {
	if err := call.Send(openedBy(star)); err != nil {
		return err
	}
	for base := uint64(0); ; {
		m, err := call.Recv()
		if err != nil {
			return nil // the producer's end
		}
		a := m.GetAppend()
		if err := call.Send(&novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Ack{Ack: &novav1.Ack{Number: a.GetNumber(), Base: base, Count: a.GetCount()}}}); err != nil {
			return err
		}
		base += uint64(a.GetCount())
	}
}

func openedBy(star string) *novav1.ProduceResponse {
	return &novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Opened{Opened: &novav1.Opened{Epoch: 1, Star: star}}}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it did not come to hold: %s", what)
}
