package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// Fault is what happens to one batch that reaches a leader.
type Fault int

const (
	None     Fault = iota
	Refuse         // the handle breaks before the batch is taken
	LoseAck        // the batch is stored, and the handle breaks before the answer
	CutConn        // the batch is stored, and the connection is cut
	Move           // the leadership moves to another star before the batch is taken
	LateAck        // the answer takes a moment
	Overload       // the handle ends with a refusal at a bound
	Swallow        // the batch is not taken, nor answered, and the handle stays open
)

// Options shape a fleet.
type Options struct {
	Stars          int // 1 when 0
	MaxRecordBytes int // 1 MiB when 0
	MaxBatchBytes  int // 8 MiB when 0
	WindowBytes    int // 8 MiB when 0
	// NoNetwork makes connections in memory, so that a fleet can live in a synctest bubble. A client then
	// needs the DialOptions.
	NoNetwork bool
	// Fault is asked for each batch that arrives. Nil: none.
	Fault func() Fault
	// RetryAfter is what an Overload asks for; 1 ms when 0.
	RetryAfter time.Duration
	// ReadHang is asked before each answer to a reader; true leaves the call open and silent. Nil: none.
	ReadHang func() bool
	// ReadFault is asked before each answer to a reader; true cuts the call. Nil: none.
	ReadFault func() bool
}

// Fleet is a gateway and stars in memory.
type Fleet struct {
	opts    Options
	pipes   map[string]*bufconn.Listener // with NoNetwork, by address; complete when New returns
	gateway *server
	stars   []*server

	mu      sync.Mutex
	streams map[string]*stream
	opens   []*novav1.Open // every Open that arrived, in order
	asked   []string       // and at whom: a star, or "gateway"
	events  []*novav1.EventsResponse
}

// server is the gateway (index -1) or one star.
type server struct {
	novav1.UnimplementedStreamsServer
	novav1.UnimplementedAdminServer
	fleet   *Fleet
	index   int
	name    string
	address string
	grpc    *grpc.Server
	lis     *listener
	served  chan struct{}
}

// New starts a fleet that ends with the test.
func New(t testing.TB, opts Options) *Fleet {
	t.Helper()
	for _, d := range []struct {
		value *int
		byDef int
	}{{&opts.Stars, 1}, {&opts.MaxRecordBytes, 1 << 20}, {&opts.MaxBatchBytes, 8 << 20}, {&opts.WindowBytes, 8 << 20}} {
		if *d.value == 0 {
			*d.value = d.byDef
		}
	}
	if opts.RetryAfter == 0 {
		opts.RetryAfter = time.Millisecond
	}
	f := &Fleet{opts: opts, streams: map[string]*stream{}, pipes: map[string]*bufconn.Listener{}}
	f.gateway = f.serve(t, -1, "gateway")
	for i := range opts.Stars {
		f.stars = append(f.stars, f.serve(t, i, fmt.Sprintf("star-%d", i)))
	}
	return f
}

func (f *Fleet) serve(t testing.TB, index int, name string) *server {
	t.Helper()
	lis, address, err := f.listen(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{fleet: f, index: index, name: name, address: address, grpc: newServer(), lis: &listener{Listener: lis}, served: make(chan struct{})}
	novav1.RegisterStreamsServer(s.grpc, s)
	novav1.RegisterAdminServer(s.grpc, s)
	go func() {
		defer close(s.served)
		_ = s.grpc.Serve(s.lis)
	}()
	t.Cleanup(s.stop)
	return s
}

// newServer is built like those of nova's services: clients ping, and must not be sent away for it.
func newServer() *grpc.Server {
	return grpc.NewServer(append(api.ServerOptions(),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))...)
}

// listen listens on loopback, or without a network where the test's time is not the world's.
func (f *Fleet) listen(name string) (net.Listener, string, error) {
	if f.opts.NoNetwork {
		lis := bufconn.Listen(1 << 20)
		f.pipes[name+":1"] = lis
		return lis, name + ":1", nil
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return lis, lis.Addr().String(), nil
}

// DialOptions are what a client needs to reach the fleet.
func (f *Fleet) DialOptions() []grpc.DialOption {
	if !f.opts.NoNetwork {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if lis := f.pipes[address]; lis != nil {
			return lis.DialContext(ctx)
		}
		return nil, fmt.Errorf("nobody listens at %s", address)
	})}
}

func (s *server) stop() {
	s.grpc.Stop()
	<-s.served
}

// Gateway is the gateway's address.
func (f *Fleet) Gateway() string { return f.gateway.address }

// Star is the address of one star.
func (f *Fleet) Star(i int) string { return f.stars[i].address }

// StopStar ends one star; the streams that it led become vacant.
func (f *Fleet) StopStar(i int) {
	f.stars[i].stop()
	for _, s := range f.all() {
		s.mu.Lock()
		if s.leader == i {
			s.leader = -1
		}
		s.mu.Unlock()
	}
}

// CutConnections breaks every connection to the gateway and the stars.
func (f *Fleet) CutConnections() {
	for _, s := range append([]*server{f.gateway}, f.stars...) {
		s.lis.cut()
	}
}

// Create makes a stream, vacant and empty.
func (f *Fleet) Create(name string, mode novav1.Mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams[name] = &stream{
		info:   &novav1.StreamInfo{Name: name, Id: "id-" + name, Mode: mode, Class: novav1.Class_CLASS_STANDARD, CreatedUnixMs: 1},
		leader: -1, producers: map[string][]stored{}, grown: make(chan struct{}), handles: map[*handle]struct{}{},
	}
}

// Lead gives the stream to a star; producers are told by Moved.
func (f *Fleet) Lead(name string, star int) {
	s := f.find(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = star
	s.epoch++
	s.endHandles(errMoved)
}

// Forget makes the stream's leader forget its producers.
func (f *Fleet) Forget(name string) {
	s := f.find(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.producers)
}

// Corrupt changes the stored batches of a stream in place.
func (f *Fleet) Corrupt(name string, change func([]*novav1.ReadBatch) []*novav1.ReadBatch) {
	s := f.find(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = change(s.batches)
}

// Batches are the batches of a stream, in order.
func (f *Fleet) Batches(name string) []*novav1.ReadBatch {
	batches, _, _ := f.find(name).from(0)
	return batches
}

// Values are the values of all records of a stream, in order.
func (f *Fleet) Values(t testing.TB, name string) []string {
	t.Helper()
	batches, _, _ := f.find(name).from(0)
	var out []string
	for _, b := range batches {
		for r, err := range batch.Records(b.GetRecords()) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(r.Value))
		}
	}
	return out
}

// Opens are the opens that arrived so far, and at whom.
func (f *Fleet) Opens() ([]*novav1.Open, []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.opens), slices.Clone(f.asked)
}

// Publish adds an event.
func (f *Fleet) Publish(e *novav1.EventsResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e = proto.CloneOf(e)
	e.Sequence = uint64(len(f.events) + 1)
	f.events = append(f.events, e)
}

func (f *Fleet) find(name string) *stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[name]
}

func (f *Fleet) all() []*stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*stream, 0, len(f.streams))
	for _, s := range f.streams {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *stream) int { return strings.Compare(a.info.GetName(), b.info.GetName()) })
	return out
}

func (f *Fleet) addresses(i int) (name, address string) { return f.stars[i].name, f.stars[i].address }

// Random is a source of faults that picks each with the given chance in a thousand.
func Random(seed uint64, perMille map[Fault]int) func() Fault {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func() Fault {
		mu.Lock()
		defer mu.Unlock()
		n := r.IntN(1000)
		for f := Refuse; f <= Swallow; f++ {
			if n -= perMille[f]; n < 0 {
				return f
			}
		}
		return None
	}
}

// listener can cut what it has accepted.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

const lateness = time.Millisecond
