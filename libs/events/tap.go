package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"nova.internal/libs/api"
)

// Filter says which events a tap yields; a zero field asks for all.
type Filter struct {
	Star   string
	Stream string    // name
	Kind   string    // "handoff.decided", or its first word alone for all of that family
	Since  time.Time // by the time at which JetStream took the event
}

// subject is the filter as a subject with wildcards, or a *api.FieldError.
func (f Filter) subject() (string, error) {
	kind, star, stream := "*.*", "*", "*"
	if f.Kind != "" {
		if strings.ContainsFunc(f.Kind, func(r rune) bool { return r != '.' && r != '-' && (r < 'a' || r > 'z') }) || strings.Count(f.Kind, ".") > 1 || strings.HasPrefix(f.Kind, ".") || strings.HasSuffix(f.Kind, ".") {
			return "", &api.FieldError{Field: "kind", Why: fmt.Sprintf("%q is no kind of event; for example leadership.opened, or handoff", f.Kind)}
		}
		kind = f.Kind
		if !strings.Contains(kind, ".") {
			kind += ".*"
		}
	}
	if f.Star != "" {
		if err := api.CheckStarName(f.Star); err != nil {
			return "", err
		}
		star = f.Star
	}
	if f.Stream != "" {
		if err := api.CheckStreamName(f.Stream); err != nil {
			return "", err
		}
		stream = api.EncodeName(f.Stream)
	}
	return subjectPrefix + kind + "." + star + "." + stream, nil
}

// Received is one event as a tap yields it.
type Received struct {
	Subject  string
	Sequence uint64 // in JetStream's stream; rises, with holes where a filter left something out
	JSON     []byte // a CloudEvent; json.Unmarshal into an Event reads it
}

// Tap yields what matches the filter, in order, from the oldest event kept. Without follow it returns nil
// when it has yielded what stood when it began; with follow it goes on until ctx ends, which it returns,
// and takes up after a lost connection where it was. An error of yield ends it and is returned. When NATS
// does not answer at the beginning, that is an error.
func Tap(ctx context.Context, url string, f Filter, follow bool, yield func(Received) error) error {
	if err := CheckURL(url); err != nil {
		return err
	}
	subject, err := f.subject()
	if err != nil {
		return err
	}
	conn, err := connect(url)
	if err != nil {
		return &api.UnavailableError{Why: err.Error(), RetryAfter: time.Second}
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	t := &tap{js: js, subject: subject, since: f.Since, follow: follow, yield: yield}
	for {
		err := t.read(ctx)
		var stop *yieldError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return ctx.Err()
		case !follow && t.tries > replayTries:
			return fmt.Errorf("replay events: %w", err)
		}
		t.tries++
		timer := time.NewTimer(reconnectWait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

const (
	consumerIdle = 30 * time.Second
	dropWait     = time.Second
)

// replayTries bounds how often a replay that makes no progress is tried again.
const replayTries = 40

// yieldError carries an error of the caller's function out.
type yieldError struct{ error }

// tap is one call of Tap, over as many consumers as it takes.
type tap struct {
	js      jetstream.JetStream
	subject string
	since   time.Time
	follow  bool
	yield   func(Received) error

	last    uint64    // sequence yielded last
	created time.Time // of the stream that last belongs to
	until   uint64    // of a replay: the newest sequence when it began; 0: not looked yet
	tries   int       // since the last progress
}

// read makes a consumer behind the last event yielded and reads it until something fails. It returns nil
// when a replay is complete.
func (t *tap) read(ctx context.Context) error {
	stream, err := t.stream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !t.follow {
		return nil // nobody has published yet
	}
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	consumer, err := stream.OrderedConsumer(setup, t.consumer())
	if err != nil {
		return err
	}
	defer func() { t.drop(ctx, stream, consumer) }()
	info, err := consumer.Info(setup)
	if err != nil {
		return err
	}
	if !t.follow && info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	unhook := context.AfterFunc(ctx, messages.Stop)
	defer unhook()
	for {
		m, err := messages.Next()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read an event's sequence: %w", err)
		}
		seq := meta.Sequence.Stream
		if seq > t.last {
			if err := t.yield(Received{Subject: m.Subject(), Sequence: seq, JSON: m.Data()}); err != nil {
				return &yieldError{err}
			}
			t.last, t.tries = seq, 0
		}
		if !t.follow && (meta.NumPending == 0 || seq >= t.until) {
			return nil
		}
	}
}

// drop removes a consumer from the server, which would keep it for a while and has room for few. One that
// cannot be removed now goes when it has been idle for long enough.
func (t *tap) drop(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropWait)
	defer cancel()
	_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name)
}

// stream looks at the JetStream stream. One that was made anew has other events under the same numbers,
// so the tap begins at its first.
func (t *tap) stream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	stream, err := t.js.Stream(ctx, StreamName)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	if !info.Created.Equal(t.created) {
		t.created, t.last, t.until = info.Created, 0, info.State.LastSeq
	}
	return stream, nil
}

func (t *tap) consumer() jetstream.OrderedConsumerConfig {
	c := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{t.subject}, DeliverPolicy: jetstream.DeliverAllPolicy,
		MaxResetAttempts:  1, // then read begins anew, and looks at the stream first
		InactiveThreshold: consumerIdle,
	}
	switch {
	case t.last > 0:
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, t.last+1
	case !t.since.IsZero():
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &t.since
	}
	return c
}
