package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"nova.internal/libs/api/novav1"
)

// ErrHeld: another process is at the role, or another task of this one.
var ErrHeld = errors.New("another process holds the role")

// Roles are advisory records of who is at a job: they save work, and nothing rests on them.
type Roles struct{ fleet *Fleet }

// Role is one that this process holds, until Release or the end of its session.
type Role struct {
	fleet   *Fleet
	path    string
	version int64
}

// Claim takes the role named by path, e.g. "settle/CHAIN", or returns ErrHeld. A claim whose answer was
// lost is recognised by the next one for the same role.
func (r Roles) Claim(ctx context.Context, path string) (*Role, error) {
	f, c := r.fleet, r.fleet.client()
	row := &novav1.RoleRow{Owner: f.cfg.Identity, SinceUnixMs: time.Now().UnixMilli()}
	if m, err := f.member(); err == nil {
		row.Owner = m.name
	}
	path = rolesPrefix + path
	version, nonce, err := c.putRow(ctx, path, row, Absent)
	if errors.Is(err, ErrUnknown) {
		f.tries.note(path, nonce)
	}
	at := version.VersionId
	if isConflict(err) {
		at, err = r.recognise(ctx, c, path)
	}
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", path, err)
	}
	return &Role{fleet: f, path: path, version: at}, nil
}

// recognise returns the version of a role that an earlier claim took without hearing of it.
func (r Roles) recognise(ctx context.Context, c *client, path string) (int64, error) {
	row := &novav1.RoleRow{}
	version, err := c.getRow(ctx, path, row)
	switch {
	case isNotFound(err): // let go meanwhile
		return 0, ErrHeld
	case err != nil:
		return 0, err
	case !r.fleet.tries.take(path, row.GetNonce()):
		return 0, ErrHeld
	}
	return version.VersionId, nil
}

// Release lets the role go. One that is gone or another's by now is no error.
func (r *Role) Release(ctx context.Context) error {
	return r.fleet.client().deleteRow(ctx, r.path, r.version)
}

// tries remembers the claims whose outcome is unknown, the latest of each role.
type tries struct {
	mu     sync.Mutex
	nonces map[string][]byte
}

func (t *tries) note(path string, nonce []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nonces == nil {
		t.nonces = map[string][]byte{}
	}
	t.nonces[path] = nonce
}

// take says whether the claim with that nonce was one of them. Only one caller hears yes.
func (t *tries) take(path string, nonce []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if noted, ok := t.nonces[path]; !ok || !bytes.Equal(noted, nonce) {
		return false
	}
	delete(t.nonces, path)
	return true
}
