package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
)

const (
	tailWait   = 2 * time.Second // for the leader's word on where a stream ends
	countWait  = 10 * time.Second
	writeTries = 4 // of a row whose last write's outcome is unknown
)

// Create makes a stream (novav1.StreamsServer). One that stands with the same mode and class is returned
// as it is, so that a Create whose answer was lost may be repeated.
func (g *Gateway) Create(ctx context.Context, r *novav1.CreateRequest) (*novav1.StreamInfo, error) {
	if err := api.CheckStreamName(r.GetName()); err != nil {
		return nil, err
	}
	row := &novav1.NameRow{
		Name: r.GetName(), Id: ulid.Make().String(), Mode: r.GetMode(), Class: r.GetClass(), CreatedUnixMs: time.Now().UnixMilli(),
	}
	switch row.Mode {
	case novav1.Mode_MODE_UNSPECIFIED:
		row.Mode = novav1.Mode_MODE_ANY
	case novav1.Mode_MODE_ANY, novav1.Mode_MODE_FENCED:
	default:
		return nil, &api.FieldError{Field: "mode", Why: fmt.Sprintf("no such mode: %d", row.Mode)}
	}
	switch row.Class {
	case novav1.Class_CLASS_UNSPECIFIED:
		row.Class = novav1.Class_CLASS_STANDARD
	case novav1.Class_CLASS_STANDARD, novav1.Class_CLASS_EXPRESS:
	default:
		return nil, &api.FieldError{Field: "class", Why: fmt.Sprintf("no such class: %d", row.Class)}
	}
	err := g.repeated(ctx, func() error { return g.create(ctx, row) })
	if err != nil {
		return nil, metastore("create the stream "+r.GetName(), err)
	}
	return g.Describe(ctx, &novav1.DescribeRequest{Name: r.GetName()})
}

// create returns nil when the name stands for a living stream of row's mode and class. Where a deletion
// was left half done under the name, it is finished first.
func (g *Gateway) create(ctx context.Context, row *novav1.NameRow) error {
	for {
		stands, created, err := g.fleet.Names().Create(ctx, row)
		switch {
		case created:
			return nil
		case errors.Is(err, coord.ErrNotFound): // another's was there, and has gone since
			continue
		case err != nil:
			return err
		}
		head, err := epoch.NewGuard(g.fleet.Rows(), stands.GetId()).Read(ctx)
		switch {
		case err != nil:
			return err
		case head.GetDeleted():
			if err := g.bury(ctx, stands); err != nil {
				return err
			}
		case stands.GetMode() != row.GetMode() || stands.GetClass() != row.GetClass():
			return fmt.Errorf("create %s: %w", row.GetName(), api.ErrStreamExists)
		default:
			return nil
		}
	}
}

// Delete ends a stream (novav1.StreamsServer). Its head becomes its gravestone, which deposes whoever
// leads it; then the name goes, then the rows. Whoever finds that half done, by this call or by Create,
// goes on with it.
func (g *Gateway) Delete(ctx context.Context, r *novav1.DeleteRequest) (*novav1.DeleteResponse, error) {
	row, err := g.lookup(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	err = g.repeated(ctx, func() error { return g.bury(ctx, row) })
	if err != nil {
		return nil, metastore("delete the stream "+r.GetName(), err)
	}
	return &novav1.DeleteResponse{}, nil
}

func (g *Gateway) bury(ctx context.Context, row *novav1.NameRow) error {
	_, err := epoch.NewGuard(g.fleet.Rows(), row.GetId()).Update(ctx, func(h *novav1.HeadRow) (*novav1.HeadRow, error) {
		if h.GetDeleted() {
			return nil, nil
		}
		h.Id, h.Mode, h.Class, h.Deleted, h.Successor = row.GetId(), row.GetMode(), row.GetClass(), true, nil
		return h, nil
	})
	if err != nil {
		return err
	}
	g.dropAtLeader(ctx, row.GetId())
	if err := g.fleet.Names().Delete(ctx, row.GetName(), row.GetId()); err != nil {
		return err
	}
	return g.fleet.Rows().DeleteStream(ctx, row.GetId())
}

// dropAtLeader tells the leader that the stream is gone. One that does not hear it finds out at its next
// look at the head, so whatever comes of the call is no matter here.
func (g *Gateway) dropAtLeader(ctx context.Context, id string) {
	lease, err := g.holder(ctx, id)
	if err != nil || lease == nil {
		return
	}
	leader := g.named(ctx, lease.GetStar())
	if !leader.known() {
		return
	}
	limit, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	cc, done, err := g.conns.get(leader.address)
	if err != nil {
		return
	}
	defer done()
	if _, err := novav1.NewStarClient(cc).Drop(limit, &novav1.DropRequest{Id: id}); err != nil {
		g.log.Debug("the leader was not told of a deletion", "id", id, "star", leader.star, "err", err)
	}
}

// repeated does again what ended with an unknown outcome. Each of the writes reads before it writes.
func (g *Gateway) repeated(ctx context.Context, do func() error) error {
	pace := newPace()
	for try := 1; ; try++ {
		err := do()
		if !errors.Is(err, coord.ErrUnknown) || try == writeTries || !pace.wait(ctx, 0) {
			return err
		}
	}
}

// Describe tells what is known of a stream (novav1.StreamsServer).
func (g *Gateway) Describe(ctx context.Context, r *novav1.DescribeRequest) (*novav1.StreamInfo, error) {
	row, err := g.lookup(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	head, err := g.readHead(ctx, row.GetId())
	if err != nil {
		return nil, err
	}
	if head.GetDeleted() {
		return nil, fmt.Errorf("%w: %q is being deleted", api.ErrUnknownStream, r.GetName())
	}
	info := described(row)
	info.Epoch, info.Covered, info.Clean = head.GetEpoch(), head.GetCovered(), epoch.CleanlyReleased(head)
	lease, err := g.holder(ctx, row.GetId())
	if err != nil {
		return nil, err
	}
	switch {
	case lease != nil && !lease.GetSettling():
		leader := g.named(ctx, lease.GetStar())
		info.Leader, info.LeaderAddress = lease.GetStar(), leader.address
		if tail, err := g.tail(ctx, leader, row.GetId()); err == nil {
			info.Next, info.NextKnown, info.Epoch = tail.GetNext(), true, tail.GetEpoch()
		}
	case head.GetHolder() == nil || info.Clean:
		info.Next, info.NextKnown = head.GetCovered(), true
	}
	if !info.NextKnown {
		info.Next = head.GetCovered() // at least
	}
	ctx, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	info.Segments, err = g.fleet.Rows().Segments(ctx, row.GetId(), head.GetCovered())
	return info, metastore("count the segments of "+r.GetName(), err)
}

// tail asks a leader where the stream ends.
func (g *Gateway) tail(ctx context.Context, leader target, id string) (*novav1.TailResponse, error) {
	if !leader.known() {
		return nil, &api.UnavailableError{Reason: novav1.Unavailable_REASON_HOLDER_UNREACHABLE, Why: "the star that holds the stream's lease is not in the fleet's registry"}
	}
	limit, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	cc, done, err := g.conns.get(leader.address)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := novav1.NewStarClient(cc).Tail(limit, &novav1.TailRequest{Id: id})
	return r, starError(ctx, silence(ctx, leader, err))
}

// List sends the streams whose names begin with the prefix, in no order, with what their names know:
// leader and positions are Describe's (novav1.StreamsServer).
func (g *Gateway) List(r *novav1.ListRequest, call grpc.ServerStreamingServer[novav1.StreamInfo]) error {
	err := g.fleet.Names().List(call.Context(), r.GetPrefix(), func(row *novav1.NameRow) error {
		return call.Send(described(row))
	})
	return metastore("list streams", err)
}

func described(row *novav1.NameRow) *novav1.StreamInfo {
	return &novav1.StreamInfo{Name: row.GetName(), Id: row.GetId(), Mode: row.GetMode(), Class: row.GetClass(), CreatedUnixMs: row.GetCreatedUnixMs()}
}
