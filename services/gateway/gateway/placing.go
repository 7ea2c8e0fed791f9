package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/placement"
)

// placerWait is how long an open waits for the placer before this gateway looks for itself.
const placerWait = 250 * time.Millisecond

// lookup resolves a stream's name.
func (g *Gateway) lookup(ctx context.Context, name string) (*novav1.NameRow, error) {
	if err := api.CheckStreamName(name); err != nil {
		return nil, err
	}
	row, err := g.fleet.Names().Get(ctx, name)
	if errors.Is(err, coord.ErrNotFound) {
		return nil, fmt.Errorf("%w: %q; create it first", api.ErrUnknownStream, name)
	}
	return row, metastore("look up the stream "+name, err)
}

// readHead reads a stream's head, nil when it has none.
func (g *Gateway) readHead(ctx context.Context, id string) (*novav1.HeadRow, error) {
	head, err := epoch.NewGuard(g.fleet.Rows(), id).Read(ctx)
	return head, metastore("read the stream's head", err)
}

// holder reads who holds the stream's lease, nil for nobody.
func (g *Gateway) holder(ctx context.Context, id string) (*novav1.LeaseRow, error) {
	lease, err := g.fleet.Leases().Holder(ctx, id)
	if errors.Is(err, coord.ErrNotFound) {
		return nil, nil
	}
	return lease, metastore("read the stream's lease", err)
}

// leaderOf is who leads the stream or should, by the placer, or without one by this gateway's own
// snapshot. Where the placer is away and nobody may lead, any living star is asked: it answers for itself.
func (g *Gateway) leaderOf(ctx context.Context, id string) (target, error) {
	r, err := g.resolveAtPlacer(ctx, id)
	var bound *api.BoundError
	if errors.As(err, &bound) {
		return target{}, err
	}
	if err != nil {
		if r, err = g.resolveHere(ctx, id); err != nil {
			return target{}, err
		}
	}
	if r.GetHolder() != "" {
		return target{r.GetHolder(), r.GetHolderAddress()}, nil
	}
	return target{r.GetDesignate(), r.GetDesignateAddress()}, nil
}

var errNoPlacer = errors.New("no placer is configured")

func (g *Gateway) resolveAtPlacer(ctx context.Context, id string) (*novav1.ResolveResponse, error) {
	if g.cfg.Placer == "" {
		return nil, errNoPlacer
	}
	ctx, cancel := context.WithTimeout(ctx, placerWait)
	defer cancel()
	cc, done, err := g.conns.get(g.cfg.Placer)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := novav1.NewPlacerClient(cc).Resolve(ctx, &novav1.ResolveRequest{Id: id})
	if err != nil {
		err = api.FromError(err)
		g.log.Debug("the placer did not answer; deciding here", "placer", g.cfg.Placer, "err", err)
		return nil, err
	}
	return r, nil
}

func (g *Gateway) resolveHere(ctx context.Context, id string) (*novav1.ResolveResponse, error) {
	lease, err := g.holder(ctx, id)
	if err != nil {
		return nil, err
	}
	var successor *novav1.Successor
	if lease == nil {
		head, err := g.readHead(ctx, id)
		if err != nil {
			return nil, err
		}
		successor = head.GetSuccessor()
	}
	fleet := g.snapshot()
	r, err := placement.Decide(fleet, id, lease.GetStar(), successor, time.Now())
	if err != nil && len(fleet.Stars) > 0 {
		return &novav1.ResolveResponse{Designate: fleet.Stars[0].Name, DesignateAddress: fleet.Stars[0].Address}, nil
	}
	return r, err
}

// snapshot is the fleet as placement sees it.
func (g *Gateway) snapshot() placement.Snapshot {
	snap := g.fleet.Registry().Snapshot()
	stars, stats := snap.Rows()
	return placement.FromRows(snap.Revision, stars, stats)
}

// named is the star of that name, unknown when it is not in the fleet. It looks at the snapshot first and
// at the metastore for one that has just joined.
func (g *Gateway) named(ctx context.Context, star string) target {
	if star == "" {
		return target{}
	}
	if m, ok := g.fleet.Registry().Snapshot().Member(star); ok {
		return target{star, m.Star.GetAddress()}
	}
	row, err := g.fleet.Registry().Star(ctx, star)
	if err != nil {
		return target{}
	}
	return target{star, row.GetAddress()}
}

// addressed completes a refusal that names a star without its address.
func (g *Gateway) addressed(ctx context.Context, err error) error {
	var other *api.NotOwnerError
	if errors.As(err, &other) && other.Address == "" {
		return &api.NotOwnerError{Star: other.Star, Address: g.named(ctx, other.Star).address, From: other.From}
	}
	return err
}
