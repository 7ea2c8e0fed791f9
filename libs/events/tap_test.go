package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"nova.internal/libs/api"
	"nova.internal/libs/events"
	"nova.internal/libs/events/natsembed"
)

func TestATapYieldsWhatItsFilterNames(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	p := newPublisher(t, s.URL(), events.Config{})
	for i, e := range []events.Event{
		{Kind: events.LeadershipOpened, Star: "a", Stream: "orders"},
		{Kind: events.LeadershipIdle, Star: "b", Stream: "orders"},
		{Kind: events.HandoffDecided, Star: "a", Stream: "orders/eu"},
		{Kind: events.StarJoined, Star: "b"},
		{Kind: events.Shed, Star: "a"},
		{Kind: events.ChainSealed},
	} {
		e.Epoch = uint64(i + 1)
		p.Publish(e)
	}
	mustClose(t, p)
	for name, tc := range map[string]struct {
		filter events.Filter
		want   []uint64
	}{
		"no filter yields all":                {events.Filter{}, upTo(6)},
		"a star":                              {events.Filter{Star: "b"}, []uint64{2, 4}},
		"a stream is not its longer sibling":  {events.Filter{Stream: "orders"}, []uint64{1, 2}},
		"a kind":                              {events.Filter{Kind: "handoff.decided"}, []uint64{3}},
		"a kind's first word names a family":  {events.Filter{Kind: "leadership"}, []uint64{1, 2}},
		"a kind of one word":                  {events.Filter{Kind: "shed"}, []uint64{5}},
		"all three":                           {events.Filter{Star: "a", Stream: "orders", Kind: "leadership.opened"}, []uint64{1}},
		"nothing matches":                     {events.Filter{Star: "c"}, nil},
		"since a time that is still to come":  {events.Filter{Since: time.Now().Add(time.Hour)}, nil},
		"since a time before the first event": {events.Filter{Since: time.Now().Add(-time.Hour)}, upTo(6)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, epochs(t, s.URL(), tc.filter)); diff != "" {
				t.Errorf("epochs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFilterWithWildcardsIsRefused(t *testing.T) {
	for _, f := range []events.Filter{{Star: "*"}, {Star: "a.b"}, {Kind: ">"}, {Kind: "*.decided"}, {Kind: "a.b.c"}, {Kind: "."}, {Stream: "a\n"}} {
		var field *api.FieldError
		if err := events.Tap(t.Context(), "nats://127.0.0.1:1", f, false, nil); !errors.As(err, &field) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestAReplayWithoutEventsEnds(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	if got := epochs(t, s.URL(), events.Filter{}); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestATapWithoutNATSSaysSo(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	link := s.URL()
	s.Close()
	var unavailable *api.UnavailableError
	if err := events.Tap(t.Context(), link, events.Filter{}, true, nil); !errors.As(err, &unavailable) {
		t.Errorf("got %v", err)
	}
}

// follow taps in the background and hands the epochs over. The tap has ended when the test does.
func follow(t *testing.T, url string, f events.Filter) <-chan uint64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan uint64, 1000)
	done := make(chan error, 1)
	go func() {
		done <- events.Tap(ctx, url, f, true, func(r events.Received) error {
			var e events.Event
			if err := json.Unmarshal(r.JSON, &e); err != nil {
				return err
			}
			got <- e.Epoch
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the tap ended with %v", err)
		}
	})
	return got
}

func wantNext(t *testing.T, got <-chan uint64, from, to int) {
	t.Helper()
	late := time.After(20 * time.Second)
	for want := from; want <= to; want++ {
		select {
		case e := <-got:
			if e != uint64(want) {
				t.Fatalf("epoch %d came where %d was due", e, want)
			}
		case <-late:
			t.Fatalf("epoch %d did not come", want)
		}
	}
}

func TestAFollowedTapReplaysThenGoesOn(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	p := newPublisher(t, s.URL(), events.Config{})
	for i := range 20 {
		p.Publish(bumped(i + 1))
	}
	eventually(t, func() bool { return len(epochs(t, s.URL(), events.Filter{})) == 20 })
	got := follow(t, s.URL(), events.Filter{})
	wantNext(t, got, 1, 20)
	p.Publish(bumped(21))
	wantNext(t, got, 21, 21)
}

func TestAFollowedTapWaitsForTheFirstEventOfAll(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	got := follow(t, s.URL(), events.Filter{})
	p := newPublisher(t, s.URL(), events.Config{})
	p.Publish(bumped(1))
	wantNext(t, got, 1, 1)
}

func TestAFollowedTapHasNoGapAndNoRepeatOverARestart(t *testing.T) {
	dir := t.TempDir()
	s := startNATS(t, natsembed.Config{Dir: dir})
	at := address(t, s)
	p := newPublisher(t, s.URL(), events.Config{})
	for i := range 10 {
		p.Publish(bumped(i + 1))
	}
	got := follow(t, s.URL(), events.Filter{})
	wantNext(t, got, 1, 10)
	s.Close()
	for i := 11; i <= 20; i++ {
		p.Publish(bumped(i))
	}
	startNATS(t, natsembed.Config{Dir: dir, Listen: at})
	wantNext(t, got, 11, 20)
	p.Publish(bumped(21))
	wantNext(t, got, 21, 21)
}

func TestATapBeginsAnewOnAStreamMadeAnew(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	at := address(t, s)
	p := newPublisher(t, s.URL(), events.Config{})
	for i := range 5 {
		p.Publish(bumped(i + 1))
	}
	got := follow(t, s.URL(), events.Filter{})
	wantNext(t, got, 1, 5)
	s.Close()
	startNATS(t, natsembed.Config{Dir: t.TempDir(), Listen: at}) // the events are gone
	p.Publish(bumped(6))
	wantNext(t, got, 6, 6)
}

func TestATapLeavesNothingOnTheServer(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	p := newPublisher(t, s.URL(), events.Config{})
	p.Publish(bumped(1))
	mustClose(t, p)
	for range 20 {
		epochs(t, s.URL(), events.Filter{})
		epochs(t, s.URL(), events.Filter{Star: "nobody"})
	}
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), events.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers are left", n)
	}
}

func TestAnErrorOfTheCallerEndsTheTap(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	p := newPublisher(t, s.URL(), events.Config{})
	p.Publish(bumped(1))
	enough := errors.New("enough")
	if err := events.Tap(bounded(t), s.URL(), events.Filter{}, true, func(events.Received) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func TestAParsedEventIsTheOneThatWasWritten(t *testing.T) {
	e := events.Event{Kind: events.ChainSealed, Star: "a", Stream: "s", StreamID: "I", Epoch: 7, ID: "X", Time: time.UnixMilli(5).UTC(), Data: json.RawMessage(`{"chain":"c","seal":3,"ms":1}`)}
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got events.Event
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}
