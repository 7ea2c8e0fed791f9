package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// Config is how a Publisher is made.
type Config struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: counts are kept and not shown
	Outbox  int                   // events held while NATS is away; 0: 4096
}

const (
	outboxDefault  = 4096
	publishTimeout = 5 * time.Second
	retryFirst     = 50 * time.Millisecond
	retryMost      = 2 * time.Second
)

var _ Reporter = (*Publisher)(nil)

// Publisher sends events to JetStream. It is safe for concurrent use.
type Publisher struct {
	url    string
	log    *slog.Logger
	counts counts
	outbox *outbox

	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{} // closed by the sender; unsent is its to write before
	unsent  int
	closing sync.Once
	lost    error
}

// New makes a publisher and starts its sender. It does not wait for NATS, which may be away as long as it
// likes; only a URL that can never work is an error. ctx's end does not end it: Close does.
func New(ctx context.Context, url string, cfg Config) (*Publisher, error) {
	if err := CheckURL(url); err != nil {
		return nil, err
	}
	if cfg.Outbox < 0 {
		return nil, fmt.Errorf("the events' outbox holds at least 1, got %d", cfg.Outbox)
	}
	if cfg.Outbox == 0 {
		cfg.Outbox = outboxDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c, err := newCounts(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	p := &Publisher{url: url, log: cfg.Log, counts: c, outbox: newOutbox(cfg.Outbox), ended: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go p.run() // Close waits for it
	return p, nil
}

// Publish hands e over and returns at once. An event that cannot be encoded is dropped and counted like
// one that found no room.
func (p *Publisher) Publish(e Event) {
	e = e.stamped()
	data, err := json.Marshal(e)
	if err != nil {
		p.counts.dropped.Inc()
		p.log.Error("an event cannot be encoded", "kind", e.Kind, "err", err)
		return
	}
	if n := p.outbox.add(message{id: e.ID, subject: e.Subject(), json: data}); n > 0 {
		p.counts.dropped.Add(float64(n))
	}
}

// Close sends what the outbox holds, as far as ctx reaches, and ends the publisher. What is left then is
// counted as dropped and named in the error. Later events are dropped.
func (p *Publisher) Close(ctx context.Context) error {
	p.outbox.close()
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
	p.cancel()
	<-p.ended
	p.closing.Do(func() {
		if n := p.unsent + p.outbox.left(); n > 0 {
			p.counts.dropped.Add(float64(n))
			p.lost = fmt.Errorf("publish the last events: %d were dropped: NATS did not take them in time", n)
		}
	})
	return p.lost
}

// run sends until the outbox is drained or the publisher is cancelled.
//
// One message at a time, so that the order of the events of this process is the order in the stream: a
// repeat after a lost answer comes before whatever follows it.
func (p *Publisher) run() {
	defer close(p.ended)
	l := &link{url: p.url}
	defer l.close()
	for {
		m, ok := p.outbox.take()
		switch {
		case ok:
			if !p.deliver(l, m) {
				p.unsent++
				return
			}
		case p.outbox.drained():
			return
		default:
			select {
			case <-p.outbox.wake:
			case <-p.ctx.Done():
				return
			}
		}
	}
}

// deliver sends m until JetStream has it, or refuses it for good. It reports false when the publisher
// was cancelled before.
func (p *Publisher) deliver(l *link, m message) bool {
	pause := &backoff.ExponentialBackOff{InitialInterval: retryFirst, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: retryMost}
	pause.Reset()
	for try := 0; ; try++ {
		err := l.publish(p.ctx, m)
		switch {
		case err == nil:
			p.counts.published.Inc()
			if try > 0 {
				p.log.Info("events are published again", "held", p.outbox.left())
			}
			return true
		case p.ctx.Err() != nil:
			return false
		case hopeless(err):
			p.counts.dropped.Inc()
			p.log.Error("an event was refused for good", "subject", m.subject, "err", err)
			return true
		case try == 0:
			p.log.Warn("events wait: NATS does not take them", "url", redact(p.url), "err", err)
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// hopeless says that a repeat of the same message would be refused again.
func hopeless(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject)
}

// link is the sender's connection. It is used by one goroutine.
type link struct {
	url   string
	conn  *nats.Conn
	js    jetstream.JetStream
	ready bool // the stream stands, as far as is known
}

// publish sends one message and waits for JetStream's answer. A repeat carries the same id, by which
// JetStream knows it.
func (l *link) publish(ctx context.Context, m message) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err := l.js.PublishMsg(ctx, &nats.Msg{
		Subject: m.subject, Data: m.json,
		Header: nats.Header{jetstream.MsgIDHeader: {m.id}, "Content-Type": {"application/cloudevents+json"}},
	}, jetstream.WithRetryAttempts(0))
	if err != nil {
		l.ready = false // whatever it was, look at the stream before the next try
	}
	return err
}

// open connects where there is no connection and makes the stream where there is none.
func (l *link) open(ctx context.Context) error {
	if l.conn == nil {
		conn, err := connect(l.url)
		if err != nil {
			return err
		}
		js, err := jetstream.New(conn)
		if err != nil {
			conn.Close()
			return err
		}
		l.conn, l.js = conn, js
	}
	if l.ready {
		return nil
	}
	if !l.conn.IsConnected() {
		return nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := ensureStream(ctx, l.js); err != nil {
		return err
	}
	l.ready = true
	return nil
}

func (l *link) close() {
	if l.conn != nil {
		l.conn.Close()
	}
}
