package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

func (s *fakeStar) redirects(to *fakeStar) {
	s.refuses(&api.NotOwnerError{Star: to.name, Address: to.addr, From: s.name})
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
