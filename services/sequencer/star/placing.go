package star

import (
	"context"
	"errors"
	"slices"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/placement"
)

// placerWait is how long an open waits for the placer before this star decides by itself.
const placerWait = 250 * time.Millisecond

// resolve asks who leads the stream or should: the placer, or, when none answers in time, the same
// decision on this star's own snapshot.
func (s *Star) resolve(ctx context.Context, id string, without ...string) (*novav1.ResolveResponse, error) {
	if s.cfg.Placer != "" {
		call, cancel := context.WithTimeout(ctx, placerWait)
		r, err := s.peers.resolveAt(call, s.cfg.Placer, &novav1.ResolveRequest{Id: id, Without: without})
		cancel()
		if err == nil {
			return r, nil
		}
		err = api.FromError(err)
		var bound *api.BoundError
		if errors.As(err, &bound) {
			return nil, err
		}
		s.report.placerAway(err)
	}
	return s.resolveHere(ctx, id, without)
}

// resolveHere is placement's decision on this star's own snapshot.
func (s *Star) resolveHere(ctx context.Context, id string, without []string) (*novav1.ResolveResponse, error) {
	lease, err := s.fleet.Leases().Holder(ctx, id)
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return nil, err
	}
	var successor *novav1.Successor
	if lease == nil || slices.Contains(without, lease.GetStar()) {
		head, err := s.readHead(ctx, id)
		if err != nil {
			return nil, err
		}
		successor = head.GetSuccessor()
	}
	answer, err := placement.Decide(fleetOf(s.fleet.Registry().Snapshot()), id, lease.GetStar(), successor, time.Now(), without...)
	if errors.Is(err, placement.ErrAtCapacity) {
		snap, rerr := s.fleet.Registry().Within(ctx, lookTwice)
		if rerr != nil {
			return nil, rerr
		}
		return placement.Decide(fleetOf(snap), id, lease.GetStar(), successor, time.Now(), without...)
	}
	return answer, err
}

// lookTwice is how old a snapshot may be that says there is no star to lead.
const lookTwice = 10 * time.Millisecond

func fleetOf(snap *coord.Snapshot) placement.Snapshot {
	stars, stats := snap.Rows()
	return placement.FromRows(snap.Revision, stars, stats)
}

// designateWithoutMe is where a stream that leaves this star should go, by the snapshot: what a handle is
// told on its way out, and may be put right by the next star.
func (s *Star) designateWithoutMe(id string) (placement.Designation, error) {
	return placement.Designate(fleetOf(s.fleet.Registry().Snapshot()), id, s.cfg.Star)
}

// redirect sends an open that this star does not serve to who holds the stream, or to the designate
// without this star. Nobody redirects to itself.
func (s *Star) redirect(ctx context.Context, id, why string) error {
	r, err := s.resolve(ctx, id, s.cfg.Star)
	if err != nil {
		return err
	}
	to := &api.NotOwnerError{Star: r.Designate, Address: r.DesignateAddress, From: s.cfg.Star}
	if r.Holder != "" && r.Holder != s.cfg.Star {
		to.Star, to.Address = r.Holder, r.HolderAddress
	}
	s.log.Debug("open redirected", "id", id, "to", to.Star, "why", why)
	return to
}

// notOwner names the star that holds a stream's lease. One that has joined since the last snapshot is
// read now.
func (s *Star) notOwner(ctx context.Context, star string) error {
	row, err := s.fleet.Registry().Star(ctx, star)
	if m, ok := s.fleet.Registry().Snapshot().Member(star); ok && err != nil {
		row, err = m.Star, nil
	}
	if err != nil {
		return unavailable(novav1.Unavailable_REASON_HOLDER_UNREACHABLE, "star "+star+" holds the stream's lease and is not in the fleet's registry; it may be starting or ending")
	}
	return &api.NotOwnerError{Star: star, Address: row.GetAddress(), From: s.cfg.Star}
}
