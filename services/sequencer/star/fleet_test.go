package star

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/oxiaembed"
	"nova.internal/libs/runtime"
)

// testFleet is a real metastore and real stars in this process, over copies in memory or in folders.
type testFleet struct {
	t     testing.TB
	cfg   Config // of the next star
	meta  *coord.Fleet
	stars map[string]*testStar
}

type testStar struct {
	*Star
	addr string
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// newFleet starts two embedded Oxia instances. tweak may change what stars are started with.
func newFleet(t testing.TB, tweak func(*Config)) *testFleet {
	t.Helper()
	f := &testFleet{t: t, stars: map[string]*testStar{}, cfg: DefaultConfig()}
	id := ulid.Make().String()
	f.cfg.Standard = []string{"mem://" + id + "-s"}
	f.cfg.Express = []string{"mem://" + id + "-a", "mem://" + id + "-b", "mem://" + id + "-c"}
	f.cfg.Oxia.SessionTimeout = 4 * time.Second
	f.cfg.Oxia.Durable, f.cfg.Oxia.Ephemeral = startOxia(t), startOxia(t)
	f.cfg.StopBudget = 10 * time.Second
	if tweak != nil {
		tweak(&f.cfg)
	}
	meta, err := coord.Dial(t.Context(), f.cfg.Oxia)
	if err != nil {
		t.Fatal(err)
	}
	f.meta = meta
	t.Cleanup(func() { _ = meta.Close() })
	return f
}

func startOxia(t testing.TB) string {
	t.Helper()
	s, err := oxiaembed.Start(oxiaembed.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Addr()
}

// start runs a star until the test ends or stopStar.
func (f *testFleet) start(name string) *testStar {
	f.t.Helper()
	if !f.tryStart(name) {
		f.t.Fatalf("star %s: %v", name, f.stars[name].err)
	}
	return f.stars[name]
}

// tryStart is start, and tells whether the star serves.
func (f *testFleet) tryStart(name string) bool {
	f.t.Helper()
	cfg := f.cfg
	cfg.Star = name
	ctx, cancel := context.WithCancel(context.Background())
	s := &testStar{stop: cancel, done: make(chan struct{})}
	ready := make(chan Addrs, 1)
	env := runtime.NewEnv("star", slog.New(slog.NewTextHandler(testLog{f.t}, &slog.HandlerOptions{Level: slog.LevelInfo})))
	go func() {
		defer close(s.done)
		s.err = run(ctx, cfg, env, func(star *Star) { s.Star = star }, func(a Addrs) { ready <- a })
	}()
	select {
	case a := <-ready:
		s.addr = a.GRPC
	case <-s.done:
		f.stars[name] = s
		return false
	case <-time.After(30 * time.Second):
		f.t.Fatalf("star %s does not serve", name)
	}
	f.stars[name] = s
	f.t.Cleanup(func() { f.stopStar(name) })
	return true
}

// stopStar stops a star in good order.
func (f *testFleet) stopStar(name string) {
	s := f.stars[name]
	s.stop()
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		f.t.Errorf("star %s does not stop", name)
	}
}

// kill ends a star without a goodbye to its streams: nothing is certified, its chains stay open.
func (f *testFleet) kill(name string) {
	f.t.Helper()
	s := f.stars[name]
	s.kill()
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		f.t.Fatalf("star %s does not die", name)
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if _, bench := l.t.(*testing.B); !bench && l.t.Context().Err() == nil {
		l.t.Log(string(p))
	}
	return len(p), nil
}

// create makes a stream.
func (f *testFleet) create(name string, mode novav1.Mode, class novav1.Class) *novav1.NameRow {
	f.t.Helper()
	row, _, err := f.meta.Names().Create(f.t.Context(), &novav1.NameRow{Name: name, Id: ulid.Make().String(), Mode: mode, Class: class})
	if err != nil {
		f.t.Fatal(err)
	}
	return row
}

func (f *testFleet) head(row *novav1.NameRow) *novav1.HeadRow {
	f.t.Helper()
	head := &novav1.HeadRow{}
	if _, err := f.meta.Rows().Get(f.t.Context(), coord.HeadKey(row.GetId()), head); err != nil {
		f.t.Fatal(err)
	}
	return head
}

func (f *testFleet) conn(star string) *grpc.ClientConn {
	f.t.Helper()
	c, err := grpc.NewClient("passthrough:///"+f.stars[star].addr, api.DialOptions()...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// producer is one raw handle: no retries, no redirects.
type producer struct {
	t      testing.TB
	call   novav1.Streams_ProduceClient
	opened *novav1.Opened
	number uint64
}

func (f *testFleet) tryOpen(star string, open *novav1.Open) (*producer, error) {
	f.t.Helper()
	return f.tryOpenIn(f.t.Context(), star, open)
}

func (f *testFleet) tryOpenIn(ctx context.Context, star string, open *novav1.Open) (*producer, error) {
	f.t.Helper()
	call, err := novav1.NewStreamsClient(f.conn(star)).Produce(ctx)
	if err != nil {
		return nil, err
	}
	if err := call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: open}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := call.Recv()
	if err != nil {
		return nil, api.FromError(err)
	}
	p := &producer{t: f.t, call: call, opened: m.GetOpened()}
	p.number = p.opened.GetLastNumber()
	return p, nil
}

func (f *testFleet) open(star, name string) *producer {
	f.t.Helper()
	p, err := f.tryOpen(star, &novav1.Open{Name: name, Producer: ulid.Make().String()})
	if err != nil {
		f.t.Fatalf("open %s at %s: %v", name, star, err)
	}
	return p
}

// send appends a batch of the values without waiting.
func (p *producer) send(values ...string) {
	p.t.Helper()
	p.number++
	p.sendAs(p.number, values...)
}

func (p *producer) sendAs(number uint64, values ...string) {
	p.t.Helper()
	if err := p.trySend(number, values...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *producer) trySend(number uint64, values ...string) error {
	var b []byte
	for _, v := range values {
		b = batch.Append(b, batch.Record{Value: []byte(v)})
	}
	return p.call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: number, Count: uint32(len(values)), Crc32C: batch.CRC(b), Records: b}}})
}

func (p *producer) recv() (*novav1.ProduceResponse, error) {
	m, err := p.call.Recv()
	return m, api.FromError(err)
}

// ack receives the next acknowledgement.
func (p *producer) ack() *novav1.Ack {
	p.t.Helper()
	m, err := p.recv()
	if err != nil || m.GetAck() == nil {
		p.t.Fatalf("want an ack, got %v, %v", m, err)
	}
	return m.GetAck()
}

func (p *producer) append(values ...string) *novav1.Ack {
	p.t.Helper()
	p.send(values...)
	return p.ack()
}

// close ends the handle and waits until the star has let it go.
func (p *producer) close() {
	p.t.Helper()
	if err := p.call.CloseSend(); err != nil {
		p.t.Fatal(err)
	}
	if m, err := p.call.Recv(); !errors.Is(err, io.EOF) {
		p.t.Fatalf("want the end, got %v, %v", m, err)
	}
}

// read reads values from a star, checking that the sequences are dense from `from` on.
func (f *testFleet) read(star, name string, from uint64) []string {
	f.t.Helper()
	values, err := f.tryRead(star, name, from)
	if err != nil {
		f.t.Fatalf("read %s at %s: %v", name, star, err)
	}
	return values
}

func (f *testFleet) tryRead(star, name string, from uint64) ([]string, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	call, err := novav1.NewStreamsClient(f.conn(star)).Read(ctx, &novav1.ReadRequest{Name: name, From: from})
	if err != nil {
		return nil, err
	}
	var values []string
	next := from
	for {
		m, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, api.FromError(err)
		}
		for _, b := range m.GetBatches() {
			if batch.CRC(b.GetRecords()) != b.GetCrc32C() {
				return nil, errors.New("a batch's checksum is wrong")
			}
			seq := b.GetBase()
			if seq > next {
				return nil, fmt.Errorf("a gap: %d comes next, got %d", next, seq)
			}
			for r, err := range batch.Records(b.GetRecords()) {
				if err != nil {
					return nil, err
				}
				if seq == next {
					values = append(values, string(r.Value))
					next++
				}
				seq++
			}
		}
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// asError finds an error of type E in err.
func asError[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

var (
	oneRecord    = batch.Append(nil, batch.Record{Value: []byte("a record")})
	oneRecordCRC = batch.CRC(oneRecord)
)
