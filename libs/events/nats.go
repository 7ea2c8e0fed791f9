package events

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	keepEvents    = 14 * 24 * time.Hour
	keepMost      = 2_000_000 // messages
	dedupeWindow  = 10 * time.Minute
	reconnectWait = 250 * time.Millisecond
)

// CheckURL says what is wrong with a NATS URL, or a list of them with commas.
func CheckURL(list string) error {
	for _, one := range strings.Split(list, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return fmt.Errorf("NATS URL: %w", err)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return fmt.Errorf("NATS URL %q: nats://HOST:PORT is expected", redact(one))
		}
		if u.Hostname() == "" {
			return fmt.Errorf("NATS URL %q: a host is missing", redact(one))
		}
	}
	return nil
}

// redact takes the password out of a URL that is going to be shown.
func redact(list string) string {
	shown := strings.Split(list, ",")
	for i, one := range shown {
		if u, err := url.Parse(one); err == nil {
			shown[i] = u.Redacted()
		} else {
			shown[i] = "(unreadable)"
		}
	}
	return strings.Join(shown, ",")
}

// connect makes a connection that comes back by itself and holds nothing back while it is away: what
// must wait, waits in the outbox.
func connect(url string) (*nats.Conn, error) {
	conn, err := nats.Connect(url, nats.Name("nova"), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait/4, reconnectWait/4), nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second),
		nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the calls return what matters; the default prints
	if err != nil {
		return nil, fmt.Errorf("no answer from NATS at %s: %w", redact(url), err)
	}
	return conn, nil
}

// ensureStream makes the stream NOVA unless it stands. One that stands with other limits is its owner's
// choice and is left alone.
func ensureStream(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: StreamName, Description: "what happened to nova's leaderships", Subjects: []string{allSubjects},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: jetstream.FileStorage,
		MaxAge: keepEvents, MaxMsgs: keepMost, Duplicates: dedupeWindow,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the JetStream stream %s: %w", StreamName, err)
	}
	return nil
}

// counts are the publisher's metrics. Publishers of one process share them.
type counts struct{ published, dropped prometheus.Counter }

func newCounts(r prometheus.Registerer) (c counts, err error) {
	if c.published, err = counter(r, "nova_events_published_total", "Events that JetStream has taken."); err != nil {
		return c, err
	}
	c.dropped, err = counter(r, "nova_events_dropped_total", "Events that found no room in the outbox, or no NATS before the end.")
	return c, err
}

func counter(r prometheus.Registerer, name, help string) (prometheus.Counter, error) {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	if r == nil {
		return c, nil
	}
	err := r.Register(c)
	var stands prometheus.AlreadyRegisteredError
	if errors.As(err, &stands) {
		if c, ok := stands.ExistingCollector.(prometheus.Counter); ok {
			return c, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", name, err)
	}
	return c, nil
}
