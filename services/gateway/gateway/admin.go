package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/events"
	"nova.internal/libs/placement"
)

// Fleet lists the living stars as this gateway's snapshot has them, without what only their writers need
// (novav1.AdminServer).
func (g *Gateway) Fleet(context.Context, *novav1.FleetRequest) (*novav1.FleetResponse, error) {
	out := &novav1.FleetResponse{}
	for _, m := range g.fleet.Registry().Snapshot().Stars {
		s := &novav1.FleetStar{Star: proto.CloneOf(m.Star), Stats: proto.CloneOf(m.Stats)}
		s.Star.Nonce = nil
		if s.Stats != nil {
			s.Stats.Nonce = nil
		}
		out.Stars = append(out.Stars, s)
	}
	return out, nil
}

// Handoff orders the leader of a stream to hand it over (novav1.AdminServer). Without a target it goes
// where placement would send it if its leader were not there.
func (g *Gateway) Handoff(ctx context.Context, r *novav1.AdminHandoffRequest) (*novav1.AdminHandoffResponse, error) {
	name, err := g.lookup(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	lease, err := g.holder(ctx, name.GetId())
	switch {
	case err != nil:
		return nil, err
	case lease == nil:
		return nil, &api.RefusedError{Why: "nobody leads stream " + r.GetName() + ": there is nothing to hand over"}
	case lease.GetSettling():
		return nil, &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEPARTING, Why: "stream " + r.GetName() + " is being settled; it has no leader to hand it over"}
	}
	leader := g.named(ctx, lease.GetStar())
	if !leader.known() {
		return nil, &api.UnavailableError{Reason: novav1.Unavailable_REASON_HOLDER_UNREACHABLE, Why: "star " + lease.GetStar() + " holds the stream's lease and is not in the fleet's registry"}
	}
	// The leader is asked first: an order that nobody is there to carry out is not decided, because
	// nobody would tell its end.
	leads, err := g.tail(ctx, leader, name.GetId())
	if err != nil {
		return nil, fmt.Errorf("ask star %s for stream %s: %w", leader.star, r.GetName(), err)
	}
	order := events.Handoff{ID: ulid.Make().String(), From: leader.star, To: r.GetTarget(), Trigger: "operator", Epoch: leads.GetEpoch()}
	if err := g.choose(ctx, name.GetId(), &order); err != nil {
		return nil, err
	}
	g.tell(events.HandoffDecided, name, order)
	done, err := g.order(ctx, leader, name.GetId(), order)
	if err != nil {
		if refusedOutright(err) { // the leader never began; nobody else tells the order's end
			order.Error = err.Error()
			g.tell(events.HandoffFailed, name, order)
		} else {
			g.work.Go(func() { g.conclude(name, lease.GetIncarnation(), order, err) })
		}
		return nil, fmt.Errorf("hand %s over from %s to %s (handoff %s): %w", r.GetName(), order.From, order.To, order.ID, err)
	}
	return &novav1.AdminHandoffResponse{Handoff: order.ID, From: order.From, To: order.To, Epoch: done.GetEpoch(), Covered: done.GetCovered()}, nil
}

// choose completes an order with its target and the numbers that decided.
func (g *Gateway) choose(ctx context.Context, id string, order *events.Handoff) error {
	d, err := placement.Designate(g.snapshot(), id, order.From)
	for _, c := range []placement.Candidate{d.First, d.Second} {
		if c.Star.Name != "" {
			order.Candidates = append(order.Candidates, events.Candidate{Star: c.Star.Name, Score: c.Score, LoadBytesPerSecond: c.Star.Load})
		}
	}
	switch {
	case order.To == "":
		order.To = d.Star.Name
		return err
	case order.To == order.From:
		return &api.RefusedError{Why: "star " + order.To + " leads the stream already"}
	case !g.named(ctx, order.To).known():
		return &api.FieldError{Field: "target", Why: fmt.Sprintf("%v of the name %q in the fleet now", api.ErrUnknownStar, order.To)}
	}
	return nil
}

// order has the leader carry the handoff out.
func (g *Gateway) order(ctx context.Context, leader target, id string, order events.Handoff) (*novav1.HandoffResponse, error) {
	cc, done, err := g.conns.get(leader.address)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := novav1.NewStarClient(cc).Handoff(ctx, &novav1.HandoffRequest{Id: id, Target: order.To, Trigger: order.Trigger, Handoff: order.ID, Epoch: order.Epoch})
	return r, starError(ctx, err)
}

// refusedOutright says that the leader's answer is its last word. After UNAVAILABLE and a lost answer the
// handoff may still go on, and its end is the star's to tell as long as it lives (conclude.go).
func refusedOutright(err error) bool {
	var refused *api.RefusedError
	var field *api.FieldError
	var bound *api.BoundError
	return errors.As(err, &refused) || errors.As(err, &field) || errors.As(err, &bound) || errors.Is(err, api.ErrUnknownStream)
}

func (g *Gateway) tell(kind events.Kind, name *novav1.NameRow, order events.Handoff) {
	g.log.Info(string(kind), "stream", name.GetName(), "handoff", order.ID, "from", order.From, "to", order.To, "err", order.Error)
	g.report.Publish(events.Event{Kind: kind, Star: order.From, Stream: name.GetName(), StreamID: name.GetId(), Epoch: order.Epoch, Data: order})
}

// Events replays the fleet's events, and follows them when asked to (novav1.AdminServer).
func (g *Gateway) Events(r *novav1.EventsRequest, call grpc.ServerStreamingServer[novav1.EventsResponse]) error {
	if g.cfg.NATS == "" {
		return &api.RefusedError{Why: "this gateway was started without --nats: it has no events"}
	}
	ctx, end := g.life(call.Context())
	defer end()
	filter := events.Filter{Star: r.GetStar(), Stream: r.GetStream(), Kind: r.GetKind()}
	if ms := r.GetSinceUnixMs(); ms > 0 {
		filter.Since = time.UnixMilli(ms)
	}
	err := events.Tap(ctx, g.cfg.NATS, filter, r.GetFollow(), func(e events.Received) error {
		return call.Send(&novav1.EventsResponse{Subject: e.Subject, CloudEvent: e.JSON, Sequence: e.Sequence})
	})
	return ended(ctx, err)
}
