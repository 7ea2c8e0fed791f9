package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// upstream is a producer handle that stands at a star.
type upstream struct {
	star   target
	stream novav1.Streams_ProduceClient
	opened *novav1.ProduceResponse
	cancel context.CancelFunc
	done   func()
}

func (u *upstream) close() {
	u.cancel()
	u.done()
}

// open opens the stream where route leads, within the open timeout and the caller's deadline. The handle
// lives as long as ctx.
func (g *Gateway) open(ctx context.Context, o *novav1.Open) (*upstream, error) {
	limit, cancel := context.WithTimeout(ctx, g.cfg.OpenTimeout)
	defer cancel()
	r := newRoute(g.named(limit, o.GetHint()), g.memory.holder(o.GetName()), o.GetRedirectedBy(), o.GetHops())
	pace := newPace()
	var last error
	var name *novav1.NameRow
	next := r.first()
	for {
		if limit.Err() != nil {
			return nil, g.gaveUp(ctx, last)
		}
		switch next {
		case ask:
			u, err := g.openAt(ctx, limit, r.at, r.open(o))
			if err == nil {
				g.memory.leads(o.GetName(), u.star)
				return u, nil
			}
			if ctx.Err() == nil { // else the caller has gone, which says nothing about the star
				g.memory.failed(o.GetName(), r.at)
			}
			g.log.Debug("open refused", "stream", o.GetName(), "star", r.at.star, "err", err)
			last = g.addressed(limit, err)
			if next = r.refused(last); next == ask {
				g.metrics.redirects.Inc()
			}
		case resolve:
			var err error
			if name == nil {
				name, err = g.lookup(limit, o.GetName())
			}
			var found target
			if err == nil {
				found, err = g.leaderOf(limit, name.GetId())
			}
			switch {
			case err == nil:
				next = r.resolved(found)
			case retryable(err) || limit.Err() != nil:
				last, next = err, pause
			default:
				return nil, err
			}
		case pause:
			pace.wait(limit, retryAfter(last))
			next = resolve
		case stop:
			return nil, last
		}
	}
}

// gaveUp is the answer to an open whose time ran out.
func (g *Gateway) gaveUp(ctx context.Context, last error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := &api.UnavailableError{Why: fmt.Sprintf("no star took the stream within %v", g.cfg.OpenTimeout), RetryAfter: retryMost}
	if last != nil {
		out.Why += "; last: " + last.Error()
	}
	var away *api.UnavailableError
	if errors.As(last, &away) {
		out.Reason = away.Reason
	}
	return out
}

// openAt asks one star. Its answer is waited for until limit ends, and no longer than the ask timeout: a
// star that hangs must not use up an open that another star may serve by now. Where it is only slow, its
// gate goes on without this caller, who joins it at the next ask. The handle lives as long as ctx.
func (g *Gateway) openAt(ctx, limit context.Context, star target, o *novav1.Open) (*upstream, error) {
	cc, done, err := g.conns.get(star.address)
	if err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(limit, g.cfg.AskTimeout)
	defer cancel()
	u := &upstream{star: star, done: done}
	ctx, u.cancel = context.WithCancel(ctx)
	unhook := context.AfterFunc(limit, u.cancel)
	err = u.begin(ctx, novav1.NewStreamsClient(cc), o)
	if !unhook() { // the time has run out, and the handle was cancelled with it, whatever the answer was
		err = &api.UnavailableError{Reason: novav1.Unavailable_REASON_HOLDER_UNREACHABLE, Why: fmt.Sprintf("star %s did not answer in time", star.star)}
	}
	if err != nil {
		u.close()
		return nil, starError(limit, err)
	}
	if s := u.opened.GetOpened().GetStar(); s != "" {
		u.star.star = s
	}
	return u, nil
}

// begin sends Open and receives Opened.
func (u *upstream) begin(ctx context.Context, c novav1.StreamsClient, o *novav1.Open) (err error) {
	if u.stream, err = c.Produce(ctx); err != nil {
		return err
	}
	err = u.stream.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: o}})
	if err != nil && !errors.Is(err, io.EOF) { // at EOF, Recv says why
		return err
	}
	u.opened, err = u.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return &api.UnavailableError{Why: "the star ended the call without an answer"}
	case err != nil:
		return err
	case u.opened.GetMoved() != nil:
		m := u.opened.GetMoved()
		return &api.NotOwnerError{Star: m.GetStar(), Address: m.GetAddress(), From: u.star.star}
	case u.opened.GetOpened() == nil:
		return fmt.Errorf("star %s answered Open with %T", u.star.star, u.opened.GetKind())
	}
	return nil
}
