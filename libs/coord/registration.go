package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

var (
	// ErrTombstoned: the identity was decommissioned and may never register again.
	ErrTombstoned = errors.New("this star was decommissioned: its identity may never be used again; start it under another name")
	// ErrIdentityInUse: another process lives under the identity.
	ErrIdentityInUse = errors.New("another process lives under this identity")
)

// inUseMargin is how much longer than the session timeout a new process waits for the row of an earlier
// one under its identity.
const inUseMargin = 3 * time.Second

// Registration is a star's membership of the fleet: its liveness row and its stats row.
type Registration struct {
	fleet *Fleet
	kv    KV // of the session that the rows belong to

	mu      sync.Mutex
	row     *novav1.StarRow
	version int64
	session int64
	closed  bool

	lost     chan struct{}
	lostOnce sync.Once
	cancel   context.CancelFunc
	watch    sync.WaitGroup
}

// Register makes the star a member. The row of an earlier process under the same identity is waited for,
// up to the session timeout and a margin; then ErrIdentityInUse. The tombstone is read before the row is
// written and again after it stands: terminate writes the tombstone first and then waits until no row
// stands, so registering and terminating cannot both win.
func (f *Fleet) Register(ctx context.Context, row *novav1.StarRow) (*Registration, error) {
	if err := f.refuseTombstoned(ctx, row.GetStar()); err != nil {
		return nil, err
	}
	path := starsPrefix + row.GetStar()
	deadline := time.Now().Add(f.cfg.SessionTimeout + inUseMargin)
	r := &Registration{fleet: f, kv: f.kv(), row: proto.CloneOf(row), lost: make(chan struct{})}
	for waited := false; ; waited = true {
		version, err := f.putRow(ctx, path, r.row, Absent)
		if err == nil {
			r.version, r.session = version.VersionId, version.SessionId
			break
		}
		if !isConflict(err) {
			return nil, err
		}
		if !waited {
			f.log.Info("waiting for the session of an earlier process under this identity to end", "star", row.GetStar(), "at_most", f.cfg.SessionTimeout+inUseMargin)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("register star %s: %w; stop it, or start this one under another name", row.GetStar(), ErrIdentityInUse)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("register star %s: %w: %w", row.GetStar(), ErrIdentityInUse, ctx.Err())
		}
	}
	if err := f.refuseTombstoned(ctx, row.GetStar()); err != nil {
		return nil, errors.Join(err, f.deleteRow(context.WithoutCancel(ctx), path, r.version))
	}
	f.mu.Lock()
	f.self, f.session = r.row, r.session
	f.mu.Unlock()
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.watch.Go(func() { r.watchRow(watch) })
	return r, nil
}

func (f *Fleet) refuseTombstoned(ctx context.Context, star string) error {
	_, err := f.rows.Get(ctx, TombstoneKey(star), &novav1.TombstoneRow{})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the tombstone of star %s: %w", star, err)
	}
	return fmt.Errorf("register star %s: %w", star, ErrTombstoned)
}

// Row is the liveness row as last written.
func (r *Registration) Row() *novav1.StarRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.CloneOf(r.row)
}

// SessionID is the Oxia session of the liveness row.
func (r *Registration) SessionID() int64 { return r.session }

// Lost closes when the liveness row has gone or stands under another session: the fleet has declared
// this star dead. What it holds in memory is then worth what its chains' rows say.
func (r *Registration) Lost() <-chan struct{} { return r.lost }

func (r *Registration) declareLost(why string) {
	r.lostOnce.Do(func() {
		r.fleet.log.Warn("the liveness row is lost", "star", r.row.GetStar(), "why", why)
		close(r.lost)
	})
}

// Update changes the liveness row.
func (r *Registration) Update(ctx context.Context, change func(*novav1.StarRow)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := proto.CloneOf(r.row)
	change(next)
	version, err := r.fleet.putRow(ctx, starsPrefix+next.GetStar(), next, Version(r.version))
	if isConflict(err) {
		r.declareLost("an update met another row, or none")
	}
	if err != nil {
		return err
	}
	r.row, r.version = next, version.VersionId
	r.fleet.mu.Lock()
	r.fleet.self = next
	r.fleet.mu.Unlock()
	if version.SessionId != r.session {
		r.declareLost("an update went out under a new session")
	}
	return nil
}

// Stats writes the star's stats row, a sibling of the liveness row so that load never rewrites routing.
func (r *Registration) Stats(ctx context.Context, row *novav1.StatsRow) error {
	version, err := r.fleet.putRow(ctx, statsPrefix+row.GetStar(), row, anyVersion)
	if err == nil && version.SessionId != r.session {
		r.declareLost("stats went out under a new session")
	}
	return err
}

// Close removes the rows and ends the watch.
func (r *Registration) Close(ctx context.Context) error {
	r.cancel()
	r.watch.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return r.fleet.deleteRow(ctx, starsPrefix+r.row.GetStar(), r.version)
}

// watchRow reads the own row a few times in each session timeout.
func (r *Registration) watchRow(ctx context.Context) {
	tick := time.NewTicker(max(r.fleet.cfg.SessionTimeout/5, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			row := &novav1.StarRow{}
			version, err := r.fleet.getEphemeral(ctx, starsPrefix+r.row.GetStar(), row)
			switch {
			case isNotFound(err):
				r.declareLost("the row is gone")
				return
			case err == nil && version.SessionId != r.session:
				r.declareLost("the row stands under another session")
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
