package gateway

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// producer is one handle through the gateway.
type producer struct {
	t      *testing.T
	call   novav1.Streams_ProduceClient
	cancel context.CancelFunc
}

func (f *testFleet) produce(o *novav1.Open) *producer {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx())
	f.t.Cleanup(cancel)
	call, err := f.streams.Produce(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &producer{f.t, call, cancel}
	p.send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: o}})
	return p
}

func (p *producer) send(m *novav1.ProduceRequest) {
	p.t.Helper()
	if err := p.call.Send(m); err != nil && !errors.Is(err, io.EOF) {
		p.t.Fatal(err)
	}
}

func (p *producer) append(number uint64) {
	p.t.Helper()
	p.send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: number, Count: 2}}})
}

// wantOpened returns which star answered.
func (p *producer) wantOpened(star string) {
	p.t.Helper()
	m, err := p.call.Recv()
	if err != nil {
		p.t.Fatal(api.FromError(err))
	}
	if got := m.GetOpened().GetStar(); got != star {
		p.t.Fatalf("opened at %q, want %q (%v)", got, star, m)
	}
}

func (p *producer) wantAck(number, base uint64) {
	p.t.Helper()
	m, err := p.call.Recv()
	if err != nil {
		p.t.Fatal(api.FromError(err))
	}
	if a := m.GetAck(); a.GetNumber() != number || a.GetBase() != base {
		p.t.Fatalf("got %v, want the ack of %d at %d", m, number, base)
	}
}

// wantRefusal receives until the call's end, which must be an E.
func wantRefusal[E error](p *producer) E {
	p.t.Helper()
	for {
		if _, err := p.call.Recv(); err != nil {
			var want E
			if !errors.As(api.FromError(err), &want) {
				p.t.Fatalf("got %v, want a %T", err, want)
			}
			return want
		}
	}
}

func TestAnOpenGoesToTheHolderAndIsRelayedBothWays(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	a.accepts()
	b.accepts()
	b.lease(f.create("orders").GetId())
	f.start()
	p := f.produce(&novav1.Open{Name: "orders", Producer: "P", Claim: "C"})
	p.wantOpened("b")
	p.append(1)
	p.append(2)
	p.wantAck(1, 0)
	p.wantAck(2, 2)
	if err := p.call.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.call.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the producer's end: %v", err)
	}
	if diff := cmp.Diff([]string{"P/C"}, producers(b)); diff != "" {
		t.Errorf("opens at b (-want +got):\n%s", diff)
	}
	if n := len(a.opened()); n != 0 {
		t.Errorf("a was asked %d times", n)
	}
}

func producers(s *fakeStar) (all []string) {
	for _, o := range s.opened() {
		all = append(all, o.GetProducer()+"/"+o.GetClaim())
	}
	return all
}

func TestAProducerHearsOfAStarThatDiesAndFindsTheNext(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	a.accepts()
	b.accepts()
	id := f.create("orders").GetId()
	l := a.lease(id)
	f.start()
	p := f.produce(&novav1.Open{Name: "orders"})
	p.wantOpened("a")
	a.server.Stop()
	wantRefusal[*api.UnavailableError](p)
	a.release(l)
	b.lease(id)
	f.produce(&novav1.Open{Name: "orders"}).wantOpened("b")
}

func TestAMoveIsPassedOnAndRemembered(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	move := make(chan struct{})
	a.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		if err := call.Send(openedBy("a")); err != nil {
			return err
		}
		<-move
		return call.Send(&novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Moved{Moved: &novav1.Moved{Star: "b", Address: b.addr, Handoff: "H"}}})
	}
	b.accepts()
	a.lease(f.create("orders").GetId()) // and keeps it: memory alone leads to b
	f.start()
	p := f.produce(&novav1.Open{Name: "orders"})
	p.wantOpened("a")
	close(move)
	m, err := p.call.Recv()
	if err != nil || m.GetMoved().GetStar() != "b" || m.GetMoved().GetHandoff() != "H" {
		t.Fatalf("got %v, %v", m, err)
	}
	if _, err := p.call.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the move: %v", err)
	}
	f.produce(&novav1.Open{Name: "orders", RedirectedBy: "a"}).wantOpened("b")
	if len(a.opened()) != 1 || b.opened()[0].GetRedirectedBy() != "a" {
		t.Errorf("opens: a %v, b %v", a.opened(), b.opened())
	}
}

func TestAProducerThatGoesEndsItsHandleAtTheStar(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	gone := make(chan struct{})
	a.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		if err := call.Send(openedBy("a")); err != nil {
			return err
		}
		<-call.Context().Done()
		close(gone)
		return nil
	}
	a.lease(f.create("orders").GetId())
	f.start()
	p := f.produce(&novav1.Open{Name: "orders"})
	p.wantOpened("a")
	p.cancel()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the star did not hear that the producer has gone")
	}
	eventually(t, "no handle is counted", func() bool { return f.gateway.handles.Load() == 0 })
}

func TestHandlesAreBounded(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.MaxHandles = 1 })
	a := f.star("a")
	a.accepts()
	a.lease(f.create("orders").GetId())
	f.start()
	p := f.produce(&novav1.Open{Name: "orders"})
	p.wantOpened("a")
	if e := wantRefusal[*api.BoundError](f.produce(&novav1.Open{Name: "orders"})); e.Name != "max-producer-handles" || e.Limit != 1 {
		t.Errorf("got %+v", e)
	}
	p.cancel()
	eventually(t, "the handle is given back", func() bool { return f.gateway.handles.Load() == 0 })
	f.produce(&novav1.Open{Name: "orders"}).wantOpened("a")
}

func TestAStoppingGatewaySendsItsProducersElsewhere(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.accepts()
	a.lease(f.create("orders").GetId())
	f.start()
	p := f.produce(&novav1.Open{Name: "orders"})
	p.wantOpened("a")
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.stop()
	}()
	if e := wantRefusal[*api.UnavailableError](p); e.Reason != novav1.Unavailable_REASON_DEPARTING {
		t.Errorf("got %+v", e)
	}
	<-done
}
