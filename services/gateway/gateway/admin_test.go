package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/events"
	"nova.internal/libs/events/natsembed"
)

func withNATS(t *testing.T) func(*Config) {
	t.Helper()
	s, err := natsembed.Start(natsembed.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return func(c *Config) { c.NATS = s.URL() }
}

// events replays the handoff events of a stream through the gateway.
func (f *testFleet) events(stream string) (got []events.Event) {
	f.t.Helper()
	call, err := f.admin.Events(f.ctx(), &novav1.EventsRequest{Stream: stream, Kind: "handoff"})
	if err != nil {
		f.t.Fatal(err)
	}
	for {
		m, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			f.t.Fatal(err)
		}
		var e events.Event
		if err := json.Unmarshal(m.GetCloudEvent(), &e); err != nil {
			f.t.Fatal(err)
		}
		got = append(got, e)
	}
}

func TestEventsAreRefusedWithoutNATS(t *testing.T) {
	f := newFleet(t, nil).start()
	call, err := f.admin.Events(f.ctx(), &novav1.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var refused *api.RefusedError
	if _, err := call.Recv(); !errors.As(api.FromError(err), &refused) {
		t.Errorf("got %v", err)
	}
}

func (f *testFleet) get(path string) (int, string) {
	f.t.Helper()
	resp, err := http.Get("http://" + f.addrs.HTTP + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestTheStatusPageShowsTheFleetAndEscapesIt(t *testing.T) {
	f := newFleet(t, nil)
	f.star("star-a", func(r *novav1.StarRow) { r.Location, r.Ineligible = "<script>alert(1)</script>", "a & b" })
	f.start()
	code, page := f.get("/")
	if code != http.StatusOK || !strings.Contains(page, "star-a") || !strings.Contains(page, "set aside: a &amp; b") || strings.Contains(page, "<script") {
		t.Errorf("%d: %s", code, page)
	}
	var fleet struct {
		Stars []struct {
			Star struct{ Star, Location, Nonce string }
		}
	}
	code, body := f.get("/v1/fleet")
	if err := json.Unmarshal([]byte(body), &fleet); err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v: %s", code, err, body)
	}
	if len(fleet.Stars) != 1 || fleet.Stars[0].Star.Star != "star-a" || fleet.Stars[0].Star.Nonce != "" {
		t.Errorf("fleet %+v", fleet)
	}
	for path, want := range map[string]int{"/readyz": 200, "/healthz": 200, "/metrics": 200, "/other": 404} {
		if code, body := f.get(path); code != want {
			t.Errorf("%s: %d: %s", path, code, body)
		}
	}
	r, err := f.admin.Fleet(f.ctx(), &novav1.FleetRequest{})
	if err != nil || len(r.GetStars()) != 1 || r.GetStars()[0].GetStar().GetStar() != "star-a" {
		t.Errorf("Fleet: %v, %v", r, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestTheMetricsShownAreThoseOfTheWholeProcess(t *testing.T) {
	f := newFleet(t, nil)
	all := prometheus.NewRegistry()
	all.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "nova_of_another_part_total"}))
	f.gatherer = all
	f.start()
	if _, body := f.get("/metrics"); !strings.Contains(body, "nova_of_another_part_total") {
		t.Errorf("metrics:\n%s", body)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAConnectionIsDroppedOnceItsStarHasLeft(t *testing.T) {
	p := &conns{}
	defer p.close()
	_, done, err := p.get("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(time.Hour)
	p.sweep(nil, late)
	if len(p.conns) != 1 {
		t.Error("a connection with a call was dropped")
	}
	done()
	p.sweep(map[string]bool{"127.0.0.1:1": true}, late)
	p.sweep(nil, time.Now())
	if len(p.conns) != 1 {
		t.Error("a connection that is wanted, or was used just now, was dropped")
	}
	p.sweep(nil, late)
	if len(p.conns) != 0 {
		t.Error("an unused connection to a star that left was kept")
	}
}

func TestAGatewayLeavesNoGoroutineBehind(t *testing.T) {
	f := newFleet(t, withNATS(t))
	a := f.star("a")
	a.accepts()
	a.serves(2)
	a.lease(f.create("orders").GetId())
	before := goleak.IgnoreCurrent()
	f.start()
	p := f.produce(&novav1.Open{Name: "orders"})
	p.wantOpened("a")
	r := f.read(&novav1.ReadRequest{Name: "orders", Follow: true})
	r.wantNext("0+2", "=2")
	f.stop()
	p.cancel()
	r.cancel()
	f.client.Close()
	a.server.Stop()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction(oxiaClient))
}

// oxiaClient is a goroutine of Oxia's client, which sees up to a few seconds late that it was closed.
const oxiaClient = "github.com/oxia-db/oxia/oxia/internal.(*shardManagerImpl).receiveWithRecovery"
