package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// Produce serves one producer handle (novav1.StreamsServer) by relaying it to the star that leads.
//
//	call's goroutine:  Open ─▶ open ─▶ Opened ─▶ star's answers ─▶ producer
//	forwarder:         producer's batches ─▶ star
//
// Nothing is held in between: gRPC's flow control on either side holds the other back. The gateway
// repeats no batch. When the star goes, the producer hears UNAVAILABLE and knows by its own unanswered
// batches what to send again.
func (g *Gateway) Produce(call novav1.Streams_ProduceServer) error {
	first, err := call.Recv()
	if err != nil {
		return err
	}
	o := first.GetOpen()
	if o == nil {
		return &api.FieldError{Field: "open", Why: "the first message of a Produce call is Open"}
	}
	if err := api.CheckStreamName(o.GetName()); err != nil {
		return err
	}
	if n := g.handles.Add(1); n > int64(g.cfg.MaxHandles) {
		g.handles.Add(-1)
		g.metrics.shed.Inc()
		return &api.BoundError{Name: "max-producer-handles", Limit: int64(g.cfg.MaxHandles), RetryAfter: time.Second}
	}
	defer g.handles.Add(-1)

	ctx, end := g.life(call.Context())
	defer end()
	u, err := g.open(ctx, o)
	g.metrics.opens.WithLabelValues(outcome(err)).Inc()
	if err != nil {
		return ended(ctx, err)
	}
	defer u.close()
	if err := call.Send(u.opened); err != nil {
		return err
	}
	g.work.Go(func() { u.forward(call) })
	return ended(ctx, g.answers(ctx, o.GetName(), u, call))
}

// forward passes the producer's messages on until either side ends. It outlives the call by no more than
// it takes gRPC to tell it.
func (u *upstream) forward(call novav1.Streams_ProduceServer) {
	for {
		m, err := call.Recv()
		switch {
		case errors.Is(err, io.EOF):
			_ = u.stream.CloseSend() // it never fails
			return
		case err != nil:
			return // the producer has gone; the star hears by the context of the call, which u's comes from
		}
		if u.stream.Send(m) != nil {
			return // answers hears why
		}
	}
}

// answers passes the star's answers on until it ends the call.
func (g *Gateway) answers(ctx context.Context, name string, u *upstream, call novav1.Streams_ProduceServer) error {
	for {
		m, err := u.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			g.memory.failed(name, u.star)
			return broken(ctx, u.star, err)
		}
		if moved := m.GetMoved(); moved != nil {
			g.metrics.moved.Inc()
			g.memory.failed(name, u.star)
			to := target{moved.GetStar(), moved.GetAddress()}
			if !to.known() {
				to = g.named(ctx, to.star)
			}
			g.memory.leads(name, to)
		}
		if err := call.Send(m); err != nil {
			return err
		}
	}
}

// broken is how a handle's end at the star reaches the producer: a refusal as it is, anything that looks
// like a lost connection as UNAVAILABLE.
func broken(ctx context.Context, star target, err error) error {
	switch status.Code(err) {
	case codes.Canceled, codes.Unknown, codes.Unavailable, codes.DeadlineExceeded:
		if refusal := api.FromError(err); retryable(refusal) {
			var away *api.UnavailableError
			if errors.As(refusal, &away) && away.Reason != novav1.Unavailable_REASON_UNSPECIFIED {
				return refusal
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &api.UnavailableError{Why: fmt.Sprintf("star %s, which led the stream, is gone: %s", star.star, status.Convert(err).Message()), RetryAfter: retryFirst}
	}
	return api.FromError(err)
}

func outcome(err error) string {
	if err == nil {
		return "opened"
	}
	return api.Status(err).Code().String()
}
