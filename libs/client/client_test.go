package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, f *clienttest.Fleet, direct bool) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Gateway: f.Gateway(), Direct: direct})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func produce(t *testing.T, c *client.Client, stream string, opts client.ProducerOptions) *client.Producer {
	t.Helper()
	p, err := c.Producer(t.Context(), stream, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whoever wanted it flushed has closed it already
		_ = p.Close(ctx)
	})
	return p
}

func value(format string, args ...any) batch.Record {
	return batch.Record{Value: fmt.Appendf(nil, format, args...)}
}

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantBase(t *testing.T, p *client.Pending, want uint64) {
	t.Helper()
	got, err := p.Wait(within(t))
	if err != nil || got != want {
		t.Errorf("Wait returned %d, %v; want %d", got, err, want)
	}
}

func TestCreateDescribeListDelete(t *testing.T) {
	c := dial(t, clienttest.New(t, clienttest.Options{}), false)
	ctx := within(t)
	for _, name := range []string{"a/1", "a/2", "b"} {
		if _, err := c.Create(ctx, name, novav1.Mode_MODE_ANY, novav1.Class_CLASS_STANDARD); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Create(ctx, "b", novav1.Mode_MODE_FENCED, novav1.Class_CLASS_STANDARD); !errors.Is(err, api.ErrStreamExists) {
		t.Errorf("create with another mode: %v", err)
	}
	if err := c.Delete(ctx, "a/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Describe(ctx, "a/1"); !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("describe of a deleted stream: %v", err)
	}
	var names []string
	for info, err := range c.List(ctx, "a/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.GetName())
	}
	if len(names) != 1 || names[0] != "a/2" {
		t.Errorf("listed %v", names)
	}
}

func TestAdminCalls(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 2})
	c := dial(t, f, false)
	ctx := within(t)
	f.Create("s", novav1.Mode_MODE_ANY)
	stars, err := c.Fleet(ctx)
	if err != nil || len(stars) != 2 {
		t.Fatalf("fleet: %v, %v", stars, err)
	}
	var refused *api.RefusedError
	if _, err := c.Handoff(ctx, "s", ""); !errors.As(err, &refused) {
		t.Errorf("handoff of a vacant stream: %v", err)
	}
	f.Lead("s", 0)
	h, err := c.Handoff(ctx, "s", "star-1")
	if err != nil || h.GetTo() != "star-1" {
		t.Errorf("handoff: %v, %v", h, err)
	}
	f.Publish(&novav1.EventsResponse{Subject: "nova.event.lease.healed.star-0._"})
	events, cancel := context.WithCancel(ctx)
	defer cancel()
	n := 0
	for _, err := range c.Events(events, &novav1.EventsRequest{Follow: true}) {
		if err != nil {
			break
		}
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestDialRefusesWhatIsNoAddress(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"a gateway without a port": {Gateway: "nowhere"},
		"no gateway":               {},
		"direct without an entry":  {Direct: true},
		"stars that are not asked": {Stars: []string{"a:1"}},
		"a star without a port":    {Direct: true, Stars: []string{"a:1", "b"}},
	} {
		if _, err := client.Dial(t.Context(), cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestDirectNeedsNoGatewayWhereItKnowsStars(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 3})
	f.Create("s", novav1.Mode_MODE_ANY)
	f.Lead("s", 1)
	for name, gateway := range map[string]string{"none": "", "one that is gone": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			c, err := client.Dial(t.Context(), client.Config{Gateway: gateway, Direct: true, Stars: []string{f.Star(0), "127.0.0.1:1", f.Star(2)}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			p := produce(t, c, "s", client.ProducerOptions{})
			if _, err := p.Append(t.Context(), value("a")).Wait(within(t)); err != nil {
				t.Error(err)
			}
			r, err := c.Reader(t.Context(), "s", client.ReaderOptions{Last: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if rec, err := r.Next(within(t)); err != nil || string(rec.Value) != "a" {
				t.Errorf("read %q, %v", rec.Value, err)
			}
			if _, err := c.Fleet(within(t)); err == nil {
				t.Error("the fleet was listed without a gateway")
			}
		})
	}
}
