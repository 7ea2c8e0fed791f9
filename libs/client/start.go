package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// askTimeout bounds the look-ups that find a star to ask; openTimeout bounds one open at one star. An
// open may wait for a departure and a gate, so it gets more.
const (
	askTimeout  = 5 * time.Second
	openTimeout = 30 * time.Second
)

// start is where an open of stream begins. In Direct mode that is the holder as last seen here, else as
// the gateway sees it, else any star, which knows the designate. When no gateway can say, one of the
// configured stars is asked, else the configured address itself: it may be a star.
func (c *Client) start(ctx context.Context, stream string) target {
	entry := target{address: c.cfg.Gateway}
	if !c.cfg.Direct {
		return entry
	}
	if t, ok := c.holder(stream); ok {
		return t
	}
	if c.cfg.Gateway != "" {
		if t, ok := c.told(ctx, stream); ok {
			return t
		}
	}
	if n := len(c.cfg.Stars); n > 0 {
		return target{address: c.cfg.Stars[rand.IntN(n)]}
	}
	return entry
}

// told is whom the gateway says to ask: the leader, else any star that is not leaving.
func (c *Client) told(ctx context.Context, stream string) (target, bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if info, err := c.Describe(ctx, stream); err == nil && info.GetLeaderAddress() != "" {
		return target{star: info.GetLeader(), address: info.GetLeaderAddress()}, true
	}
	stars, err := c.Fleet(ctx)
	if err != nil {
		return target{}, false
	}
	for _, i := range rand.Perm(len(stars)) {
		s := stars[i].GetStar()
		if s.GetAddress() != "" && s.GetDraining() == novav1.Draining_DRAINING_NONE {
			return target{star: s.GetStar(), address: s.GetAddress()}, true
		}
	}
	return target{}, false
}

// errAnswerLate is a star that did not answer in time.
var errAnswerLate = errors.New("no answer in time")

// opened is a call whose first answer arrived.
type opened[C any] struct {
	call   C
	at     target
	cancel context.CancelFunc
}

// follow opens a call along the route r: ask asks one star and returns once the star has taken the call
// on, within patience where it is above 0. It follows NOT_OWNER, and returns the refusal of the last star
// otherwise.
func follow[C any](ctx context.Context, c *Client, stream string, r *route, patience time.Duration, ask func(context.Context, novav1.StreamsClient, *route) (C, error)) (opened[C], error) {
	var why error // of the last star that was no mere redirect
	for {
		callCtx, cancel := context.WithCancelCause(ctx)
		late := func() bool { return true }
		if patience > 0 {
			late = time.AfterFunc(patience, func() { cancel(errAnswerLate) }).Stop
		}
		call, err := asked(callCtx, c, r, ask)
		if !late() && err == nil {
			err = errAnswerLate
		}
		if err == nil {
			return opened[C]{call: call, at: r.at, cancel: func() { cancel(nil) }}, nil
		}
		if cause := context.Cause(callCtx); errors.Is(cause, errAnswerLate) {
			err = errAnswerLate
		}
		cancel(nil)
		err = api.FromError(err)
		c.log.DebugContext(ctx, "open refused", "stream", stream, "address", r.at.address, "star", r.at.star, "err", err)
		var notOwner *api.NotOwnerError
		was := r.at
		if errors.As(err, &notOwner) && r.redirected(notOwner) {
			continue
		}
		// The memory was wrong or its star is gone: the next open looks the holder up again.
		c.forget(stream, was.address)
		err = fmt.Errorf("%s: %w", was.address, err)
		if notOwner == nil && !fatal(err) && r.unreachable() {
			why = err
			continue
		}
		if notOwner != nil && why != nil {
			err = why // the named star's own answer says more, and when to come again
		}
		return opened[C]{}, err
	}
}

func asked[C any](ctx context.Context, c *Client, r *route, ask func(context.Context, novav1.StreamsClient, *route) (C, error)) (C, error) {
	streams, err := c.streams(r.at.address)
	if err != nil {
		var none C
		return none, err
	}
	return ask(ctx, streams, r)
}
