package ctl_test

import (
	"context"
	"strings"
	"testing"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client/clienttest"
	"nova.internal/services/novactl/ctl"
)

const (
	healed = `{"specversion":"1.0","id":"1","source":"/nova/stars/a","type":"nova.lease.healed","subject":"orders","time":"2026-01-02T03:04:05.123456789Z","star":"a","epoch":"7","data":{"age_ms":12}}`
	joined = `{"specversion":"1.0","id":"2","source":"/nova/stars/b","type":"nova.star.joined","time":"2026-01-02T03:04:06Z","star":"b"}`
)

func withEvents(t *testing.T) *clienttest.Fleet {
	f := clienttest.New(t, clienttest.Options{})
	f.Publish(&novav1.EventsResponse{Subject: "nova.event.lease.healed.a.b3JkZXJz", CloudEvent: []byte(healed)})
	f.Publish(&novav1.EventsResponse{Subject: "nova.event.star.joined.b._", CloudEvent: []byte(joined)})
	return f
}

func TestEventsAreOneLineEach(t *testing.T) {
	f := withEvents(t)
	r := run(t, f, "", "events").want(t, 0)
	want := "2026-01-02T03:04:05.123Z  lease.healed           star=a stream=orders epoch=7 {\"age_ms\":12}\n" +
		"2026-01-02T03:04:06.000Z  star.joined            star=b\n"
	if r.out != want {
		t.Errorf("printed\n%swant\n%s", r.out, want)
	}
	if r := run(t, f, "", "events", "-o", "json").want(t, 0); r.out != healed+"\n"+joined+"\n" {
		t.Errorf("printed %s", r.out)
	}
	if r := run(t, f, "", "events", "--kind", "star.joined").want(t, 0); strings.Count(r.out, "\n") != 1 {
		t.Errorf("one kind printed %s", r.out)
	}
}

func TestWhatIsNoEventOfNovaDoesNotEndEvents(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Publish(&novav1.EventsResponse{Subject: "nova.event.x", CloudEvent: []byte("{")})
	f.Publish(&novav1.EventsResponse{Subject: "nova.event.star.joined.b._", CloudEvent: []byte(joined)})
	r := run(t, f, "", "events").want(t, 0)
	if !strings.HasPrefix(r.out, "nova.event.x  not an event of nova\n2026") {
		t.Errorf("printed %q", r.out)
	}
	r = run(t, f, "", "events", "-o", "json").want(t, 0)
	if !strings.HasPrefix(r.out, `{"malformed":"ew==","sequence":1,"subject":"nova.event.x"}`+"\n") {
		t.Errorf("printed %q", r.out)
	}
}

func TestFollowedEventsEndWell(t *testing.T) {
	f := withEvents(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var out buffer
	done := make(chan result)
	go func() { done <- runUntil(ctx, f, ctl.Streams{Out: &out}, "events", "--follow") }()
	out.eventually(t, "star.joined")
	interrupt()
	r := <-done
	r.want(t, 0)
}
