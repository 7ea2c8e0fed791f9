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

func (s *fakeStar) redirects(to *fakeStar) {
	s.refuses(&api.NotOwnerError{Star: to.name, Address: to.addr, From: s.name})
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

func TestAnOpenFollowsRedirectsAndRemembersWhereTheyEnd(t *testing.T) {
	f := newFleet(t, nil)
	a, b, c := f.star("a"), f.star("b"), f.ghost("c") // c is not in the snapshot yet
	a.redirects(b)
	b.redirects(c)
	c.accepts()
	a.lease(f.create("orders").GetId())
	f.start()
	f.produce(&novav1.Open{Name: "orders"}).wantOpened("c")
	f.produce(&novav1.Open{Name: "orders"}).wantOpened("c")
	type way struct {
		From string
		Hops uint32
	}
	var got []way
	for _, o := range c.opened() {
		got = append(got, way{o.GetRedirectedBy(), o.GetHops()})
	}
	if diff := cmp.Diff([]way{{"b", 2}, {"", 0}}, got); diff != "" {
		t.Errorf("opens at c (-want +got):\n%s", diff)
	}
	if len(a.opened()) != 1 || len(b.opened()) != 1 {
		t.Errorf("a and b were asked again: %d, %d", len(a.opened()), len(b.opened()))
	}
}

func TestAnOpenEndsUnavailableWhereTheStarsDoNotAgree(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.OpenTimeout = 700 * time.Millisecond })
	a, b := f.star("a"), f.star("b")
	a.redirects(b)
	b.redirects(a)
	a.lease(f.create("orders").GetId())
	f.start()
	began := time.Now()
	wantRefusal[*api.UnavailableError](f.produce(&novav1.Open{Name: "orders"}))
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	asks := len(a.opened()) + len(b.opened())
	if asks < 6 || asks > 6*15 { // six a round, and at least 40 ms between rounds
		t.Errorf("%d asks", asks)
	}
}

func TestAHintThatFailedIsNotAskedAgain(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	a.refuses(&api.UnavailableError{Why: "gone"})
	tries := 0
	b.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		if tries++; tries < 4 {
			return &api.UnavailableError{Reason: novav1.Unavailable_REASON_LIMBO, Why: "not yet"}
		}
		return acknowledge("b", call)
	}
	b.lease(f.create("orders").GetId())
	f.start()
	f.produce(&novav1.Open{Name: "orders", Hint: "a", RedirectedBy: "z", Hops: 1}).wantOpened("b")
	if opens := a.opened(); len(opens) != 1 || opens[0].GetRedirectedBy() != "z" || opens[0].GetHint() != "" {
		t.Errorf("the hint was asked: %v", opens)
	}
	if len(b.opened()) != 4 {
		t.Errorf("the holder was asked %d times, want 4", len(b.opened()))
	}
}

func TestAFinalRefusalReachesTheProducerAtOnce(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.refuses(&api.FencedError{Epoch: 3, Why: "a newer producer"})
	a.lease(f.create("orders").GetId())
	f.start()
	if e := wantRefusal[*api.FencedError](f.produce(&novav1.Open{Name: "orders"})); e.Epoch != 3 {
		t.Errorf("epoch %d", e.Epoch)
	}
	if len(a.opened()) != 1 {
		t.Errorf("asked %d times", len(a.opened()))
	}
}

func TestAnOpenOfAnUnknownStreamIsRefused(t *testing.T) {
	f := newFleet(t, nil).start()
	p := f.produce(&novav1.Open{Name: "nowhere"})
	if _, err := p.call.Recv(); !errors.Is(api.FromError(err), api.ErrUnknownStream) {
		t.Errorf("got %v", err)
	}
	p = f.produce(&novav1.Open{Name: "bad\n"})
	if e := wantRefusal[*api.FieldError](p); e.Field != "name" {
		t.Errorf("field %s", e.Field)
	}
}

func TestAFleetWithoutStarsIsAtCapacity(t *testing.T) {
	f := newFleet(t, nil).start()
	f.create("orders")
	if e := wantRefusal[*api.BoundError](f.produce(&novav1.Open{Name: "orders"})); e.Name != api.BoundFleetCapacity {
		t.Errorf("bound %s", e.Name)
	}
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

func TestAnOpenThatIsNotAnsweredEndsInTime(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.OpenTimeout = 300 * time.Millisecond })
	a := f.star("a")
	a.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		<-call.Context().Done()
		return nil
	}
	a.lease(f.create("orders").GetId())
	f.start()
	wantRefusal[*api.UnavailableError](f.produce(&novav1.Open{Name: "orders"}))
}

func TestAStarThatHangsDoesNotUseUpAnOpen(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.AskTimeout = 200 * time.Millisecond })
	a, b := f.star("a"), f.star("b")
	a.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		<-call.Context().Done()
		return nil
	}
	asks := 0
	b.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		if asks++; asks == 1 { // its gate takes longer than one ask
			<-call.Context().Done()
			return nil
		}
		return acknowledge("b", call)
	}
	b.lease(f.create("orders").GetId())
	f.start()
	began := time.Now()
	f.produce(&novav1.Open{Name: "orders", Hint: "a"}).wantOpened("b")
	if took := time.Since(began); took > 5*time.Second || len(a.opened()) != 1 {
		t.Errorf("it took %v and %d asks of the star that hangs", took, len(a.opened()))
	}
}

func TestARefusalIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	var asked []time.Time
	a.produce = func(_ *novav1.Open, call novav1.Streams_ProduceServer) error {
		if asked = append(asked, time.Now()); len(asked) == 1 {
			return &api.UnavailableError{Why: "a copy is away", RetryAfter: 400 * time.Millisecond}
		}
		return acknowledge("a", call)
	}
	a.lease(f.create("orders").GetId())
	f.start()
	f.produce(&novav1.Open{Name: "orders"}).wantOpened("a")
	if between := asked[1].Sub(asked[0]); between < 400*time.Millisecond {
		t.Errorf("asked again after %v", between)
	}
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
