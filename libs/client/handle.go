package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// produceCall is one Produce call.
type produceCall = novav1.Streams_ProduceClient

// greeted is a Produce call whose Opened has arrived.
type greeted struct {
	produceCall
	hello *novav1.Opened
}

// movedError ends a handle whose leadership went to another star.
type movedError struct {
	to   target
	from string // the star that said so
}

func (e *movedError) Error() string {
	return fmt.Sprintf("the leadership moved from %s to %s (%s)", e.from, e.to.star, e.to.address)
}

// openHandle opens the producer at whoever leads its stream; lost says how the handle before it ended.
func (p *Producer) openHandle(ctx context.Context, lost error) (opened[greeted], error) {
	c := p.client
	var r *route
	var moved *movedError
	switch isMoved := errors.As(lost, &moved); {
	case isMoved && c.cfg.Direct && moved.to.address != "":
		c.remember(p.stream, moved.to)
		r = newRoute(true, moved.to, moved.from, "")
	case isMoved:
		r = newRoute(c.cfg.Direct, c.start(ctx, p.stream), moved.from, moved.to.star)
	default:
		r = newRoute(c.cfg.Direct, c.start(ctx, p.stream), "", "")
	}
	return follow(ctx, c, p.stream, r, openTimeout, p.greet)
}

// greet sends Open and waits for Opened.
func (p *Producer) greet(ctx context.Context, streams novav1.StreamsClient, r *route) (greeted, error) {
	p.mu.Lock()
	open := &novav1.Open{
		Name: p.stream, Producer: p.id, Claim: p.claim, Reopen: p.reopen,
		RedirectedBy: r.from, Hops: r.hops, Hint: r.hint, WindowBytes: p.opts.WindowBytes,
	}
	p.mu.Unlock()
	call, err := streams.Produce(ctx)
	if err != nil {
		return greeted{}, err
	}
	// A send that fails has its reason in the answer.
	if err := call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: open}}); err != nil && !errors.Is(err, io.EOF) {
		return greeted{}, err
	}
	m, err := call.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return greeted{}, &api.UnavailableError{Why: "the open was ended without an answer"}
	case err != nil:
		return greeted{}, err
	case m.GetOpened() == nil:
		return greeted{}, fmt.Errorf("the first answer to an open is %T, not Opened", m.GetKind())
	}
	return greeted{produceCall: call, hello: m.GetOpened()}, nil
}
