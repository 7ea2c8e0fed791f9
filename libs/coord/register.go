package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

var (
	// ErrTombstoned: the identity was decommissioned and may never register again.
	ErrTombstoned = errors.New("this star was decommissioned: its identity may never be used again; start it under another name")
	// ErrIdentityInUse: another process lives under the identity.
	ErrIdentityInUse = errors.New("another process lives under this identity")
)

const (
	// inUseMargin is how much longer than the session timeout a new process waits for the row of an earlier
	// one under its identity.
	inUseMargin = 3 * time.Second
	// inUsePause is how often it looks.
	inUsePause = 200 * time.Millisecond
)

// Register makes the star a member. The row of an earlier process under the same identity is waited for,
// up to the session timeout and a margin; then ErrIdentityInUse. A row of this very incarnation, from a
// registration whose answer or session was lost, is taken over at once.
//
// The tombstone is read before the row is written and again after it stands: terminate writes the
// tombstone first and then waits until no row stands, so registering and terminating cannot both win.
func (f *Fleet) Register(ctx context.Context, row *novav1.StarRow) (*Registration, error) {
	star := row.GetStar()
	if err := api.CheckStarName(star); err != nil {
		return nil, err
	}
	if _, err := f.member(); err == nil {
		return nil, fmt.Errorf("register star %s: this process is registered already", star)
	}
	if err := f.refuseTombstoned(ctx, star); err != nil {
		return nil, err
	}
	r := newRegistration(f, proto.CloneOf(row))
	version, err := r.claim(ctx)
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("register star %s: %w", star, err)
	}
	r.star.at, r.session, r.confirmed = Version(version.VersionId), version.SessionId, time.Now()
	if err = f.refuseTombstoned(ctx, star); err == nil {
		if err = f.enter(r); err == nil {
			return r, nil
		}
	}
	r.stop()
	return nil, errors.Join(err, r.client.deleteRow(context.WithoutCancel(ctx), r.star.path, version.VersionId))
}

// claim writes the liveness row, waiting for an earlier process's to go.
func (r *Registration) claim(ctx context.Context) (oxia.Version, error) {
	limit := r.fleet.cfg.SessionTimeout + inUseMargin
	began, told := time.Now(), false
	for {
		version, _, err := r.client.putRow(ctx, r.star.path, r.row, Absent)
		if !isConflict(err) {
			return version, err
		}
		stands := &novav1.StarRow{}
		old, err := r.client.getRow(ctx, r.star.path, stands)
		switch {
		case isNotFound(err): // it has just gone
		case err != nil:
			return version, err
		case r.row.GetIncarnation() != "" && stands.GetIncarnation() == r.row.GetIncarnation():
			if version, _, err = r.client.putRow(ctx, r.star.path, r.row, Version(old.VersionId)); !isConflict(err) {
				return version, err
			}
		case !told:
			told = true
			r.fleet.log.Info("waiting for the session of another process under this identity to end",
				"star", r.name, "its_address", stands.GetAddress(), "at_most", limit)
		}
		if time.Since(began) > limit {
			return version, fmt.Errorf("%w, at %s; stop it, or start this one under another name", ErrIdentityInUse, stands.GetAddress())
		}
		select {
		case <-time.After(inUsePause):
		case <-ctx.Done():
			return version, fmt.Errorf("%w, at %s: %w", ErrIdentityInUse, stands.GetAddress(), ctx.Err())
		}
	}
}

func (f *Fleet) refuseTombstoned(ctx context.Context, star string) error {
	_, err := f.rows.Get(ctx, TombstoneKey(star), &novav1.TombstoneRow{})
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the tombstone of star %s: %w", star, err)
	}
	return fmt.Errorf("register star %s: %w", star, ErrTombstoned)
}
