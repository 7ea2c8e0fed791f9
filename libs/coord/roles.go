package coord

import (
	"context"
	"errors"
	"time"

	"nova.internal/libs/api/novav1"
)

// ErrHeld: another process is at the role.
var ErrHeld = errors.New("another process holds the role")

// Roles are advisory records of who is at a job: they save work, and nothing rests on them.
type Roles struct{ fleet *Fleet }

// Role is one that this process holds, until Release or the end of its session.
type Role struct {
	fleet   *Fleet
	path    string
	version int64
}

// Claim takes the role named by path, e.g. "settle/CHAIN", or returns ErrHeld.
func (r Roles) Claim(ctx context.Context, path string) (*Role, error) {
	row := &novav1.RoleRow{Owner: r.fleet.cfg.Identity, SinceUnixMs: time.Now().UnixMilli()}
	version, err := r.fleet.putRow(ctx, rolesPrefix+path, row, Absent)
	if isConflict(err) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return &Role{fleet: r.fleet, path: rolesPrefix + path, version: version.VersionId}, nil
}

// Release lets the role go.
func (r *Role) Release(ctx context.Context) error { return r.fleet.deleteRow(ctx, r.path, r.version) }
