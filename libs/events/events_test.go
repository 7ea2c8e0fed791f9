package events_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"nova.internal/libs/events"
	"nova.internal/libs/events/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startNATS(t *testing.T, cfg natsembed.Config) *natsembed.Server {
	t.Helper()
	s, err := natsembed.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newPublisher(t *testing.T, url string, cfg events.Config) *events.Publisher {
	t.Helper()
	p, err := events.New(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(bounded(t)) })
	return p
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustClose(t *testing.T, p *events.Publisher) {
	t.Helper()
	if err := p.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// epochs replays what matches and returns the events' epochs.
func epochs(t *testing.T, url string, f events.Filter) (got []uint64) {
	t.Helper()
	err := events.Tap(bounded(t), url, f, false, func(r events.Received) error {
		var e events.Event
		if err := json.Unmarshal(r.JSON, &e); err != nil {
			return err
		}
		got = append(got, e.Epoch)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func upTo(n int) (all []uint64) {
	for i := range n {
		all = append(all, uint64(i+1))
	}
	return all
}

func bumped(n int) events.Event {
	return events.Event{Kind: events.EpochBumped, Star: "a", Stream: "orders", StreamID: "S", Epoch: uint64(n)}
}

func address(t *testing.T, s *natsembed.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestEventsArriveInTheOrderOfPublishing(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	p := newPublisher(t, s.URL(), events.Config{})
	for i := range 500 {
		p.Publish(bumped(i + 1))
	}
	mustClose(t, p)
	if diff := cmp.Diff(upTo(500), epochs(t, s.URL(), events.Filter{})); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

func TestAnEventPublishedTwiceIsKeptOnce(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	p := newPublisher(t, s.URL(), events.Config{})
	twice := bumped(1)
	twice.ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	p.Publish(twice)
	p.Publish(twice)
	p.Publish(bumped(2))
	mustClose(t, p)
	if diff := cmp.Diff(upTo(2), epochs(t, s.URL(), events.Filter{})); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

func TestAHandoffHasOneDecisionAndOneEnd(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	star, gateway := newPublisher(t, s.URL(), events.Config{}), newPublisher(t, s.URL(), events.Config{})
	tell := func(p *events.Publisher, kind events.Kind, handoff string, epoch uint64) {
		p.Publish(events.Event{Kind: kind, Star: "a", Epoch: epoch, Data: events.Handoff{ID: handoff}})
	}
	tell(gateway, events.HandoffDecided, "H", 1)
	tell(gateway, events.HandoffDecided, "I", 2)
	tell(gateway, events.HandoffFailed, "H", 3)
	mustClose(t, gateway)
	tell(star, events.HandoffFinished, "H", 4)
	tell(star, events.HandoffFinished, "I", 5)
	mustClose(t, star)
	if diff := cmp.Diff([]uint64{1, 2, 3, 5}, epochs(t, s.URL(), events.Filter{})); diff != "" {
		t.Errorf("events kept (-want +got):\n%s", diff)
	}
}

func TestNothingIsLostOverAnOutageThatTheOutboxHolds(t *testing.T) {
	dir := t.TempDir()
	s := startNATS(t, natsembed.Config{Dir: dir})
	at := address(t, s)
	p := newPublisher(t, s.URL(), events.Config{})
	p.Publish(bumped(1))
	eventually(t, func() bool { return len(epochs(t, s.URL(), events.Filter{})) == 1 })
	s.Close()
	for i := 2; i <= 100; i++ {
		p.Publish(bumped(i))
	}
	again := startNATS(t, natsembed.Config{Dir: dir, Listen: at})
	mustClose(t, p)
	if diff := cmp.Diff(upTo(100), epochs(t, again.URL(), events.Filter{})); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

func TestAPublisherStartsWithoutNATSAndDeliversOnceItIsThere(t *testing.T) {
	dir := t.TempDir()
	s := startNATS(t, natsembed.Config{Dir: dir})
	at, link := address(t, s), s.URL()
	s.Close()
	p := newPublisher(t, link, events.Config{})
	p.Publish(bumped(1))
	startNATS(t, natsembed.Config{Dir: dir, Listen: at})
	mustClose(t, p)
	if diff := cmp.Diff(upTo(1), epochs(t, link, events.Filter{})); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

func TestTheOldestEventsAreDroppedAndCounted(t *testing.T) {
	dir := t.TempDir()
	s := startNATS(t, natsembed.Config{Dir: dir})
	at, link := address(t, s), s.URL()
	s.Close()
	metrics := prometheus.NewRegistry()
	p := newPublisher(t, link, events.Config{Outbox: 10, Metrics: metrics})
	const published = 50
	for i := range published {
		p.Publish(bumped(i + 1))
	}
	startNATS(t, natsembed.Config{Dir: dir, Listen: at})
	mustClose(t, p)
	got := epochs(t, link, events.Filter{})
	if n := counted(t, metrics, "nova_events_dropped_total"); n+float64(len(got)) != published {
		t.Errorf("%v dropped and %d arrived, of %d", n, len(got), published)
	}
	if n := len(got); n < 10 || n > 11 { // the sender holds one beyond the bound
		t.Fatalf("%d arrived: %v", n, got)
	}
	if diff := cmp.Diff(upTo(published)[published-10:], got[len(got)-10:]); diff != "" {
		t.Errorf("the newest epochs (-want +got):\n%s", diff)
	}
}

func TestCloseEndsWithinItsContextAndCountsWhatIsLeft(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	link := s.URL()
	s.Close()
	metrics := prometheus.NewRegistry()
	p := newPublisher(t, link, events.Config{Metrics: metrics})
	for i := range 7 {
		p.Publish(bumped(i + 1))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := p.Close(ctx); err == nil {
		t.Error("the loss was not reported")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("closing took %v", took)
	}
	p.Publish(bumped(8))
	if n := counted(t, metrics, "nova_events_dropped_total"); n != 8 {
		t.Errorf("%v counted as dropped, want 8", n)
	}
}

func TestAURLThatCannotWorkIsRefused(t *testing.T) {
	for _, bad := range []string{"", "http://127.0.0.1:1", "127.0.0.1:4222", "nats://", "nats://a:1,", "nats://a:b"} {
		if p, err := events.New(t.Context(), bad, events.Config{}); err == nil {
			_ = p.Close(bounded(t))
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestPublishersOfOneProcessShareTheirCounts(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	metrics := prometheus.NewRegistry()
	for range 2 {
		p := newPublisher(t, s.URL(), events.Config{Metrics: metrics})
		p.Publish(bumped(1))
		mustClose(t, p)
	}
	if n := counted(t, metrics, "nova_events_published_total"); n != 2 {
		t.Errorf("%v published, want 2", n)
	}
}

func TestAStreamWithOtherLimitsIsLeftAlone(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	own := jetstream.StreamConfig{Name: events.StreamName, Subjects: []string{"nova.event.>"}, MaxMsgs: 3}
	if _, err := js.CreateStream(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, s.URL(), events.Config{})
	for i := range 5 {
		p.Publish(bumped(i + 1))
	}
	mustClose(t, p)
	if diff := cmp.Diff([]uint64{3, 4, 5}, epochs(t, s.URL(), events.Filter{})); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

func TestAnEventIsACloudEventUnderItsSubject(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sub, err := conn.SubscribeSync("nova.event.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, s.URL(), events.Config{})
	p.Publish(events.Event{
		Kind: events.HandoffDecided, Star: "star-a", Stream: "a.b/*", StreamID: "SID", Epoch: 1 << 40, ID: "ID",
		Time: time.UnixMilli(1_700_000_000_123), Data: events.Handoff{ID: "H", From: "star-a", To: "star-b", Trigger: "operator"},
	})
	m, err := sub.NextMsgWithContext(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := "nova.event.handoff.decided.star-a.YS5iLyo"; m.Subject != want {
		t.Errorf("subject %s, want %s", m.Subject, want)
	}
	if id := m.Header.Get("Nats-Msg-Id"); id != "ID" {
		t.Errorf("message id %q", id)
	}
	var got map[string]any
	if err := json.Unmarshal(m.Data, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"specversion": "1.0", "id": "ID", "source": "/nova/stars/star-a", "type": "nova.handoff.decided", "subject": "a.b/*",
		"time": "2023-11-14T22:13:20.123Z", "datacontenttype": "application/json", "star": "star-a", "streamid": "SID",
		"epoch": "1099511627776",
		"data":  map[string]any{"handoff": "H", "from": "star-a", "to": "star-b", "trigger": "operator"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func counted(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("it did not come to hold in time")
}
