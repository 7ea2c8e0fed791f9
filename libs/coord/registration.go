package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

// Registration is a star's membership of the fleet: its liveness row and its stats row, under one session.
// It is safe for concurrent use.
type Registration struct {
	fleet   *Fleet
	client  *client // whose session the rows belong to
	name    string
	session int64

	star, stats ownRow

	mu        sync.Mutex
	row       *novav1.StarRow // as last written
	confirmed time.Time
	closed    bool

	lost     chan struct{}
	lostOnce sync.Once
	watching context.Context // of the watch
	stop     context.CancelFunc
	watched  chan struct{} // the watch has ended
}

// ownRow is one of the two rows. writing is taken by whoever writes it; at is then his.
type ownRow struct {
	path    string
	writing chan struct{}
	at      Version
	unsure  bool // a write's outcome is unknown: it may stand at another version
}

func (o *ownRow) lock(ctx context.Context) error {
	select {
	case o.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write %s: %w", o.path, ctx.Err())
	}
}

func (o *ownRow) unlock() { <-o.writing }

func newRegistration(f *Fleet, row *novav1.StarRow) *Registration {
	name := row.GetStar()
	r := &Registration{
		fleet: f, client: f.client(), name: name, row: row,
		star:  ownRow{path: starsPrefix + name, writing: make(chan struct{}, 1), at: Absent},
		stats: ownRow{path: statsPrefix + name, writing: make(chan struct{}, 1), at: Absent},
		lost:  make(chan struct{}), watched: make(chan struct{}),
	}
	r.watching, r.stop = context.WithCancel(f.life)
	return r
}

// Row is the liveness row as last written.
func (r *Registration) Row() *novav1.StarRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.CloneOf(r.row)
}

// SessionID is the Oxia session of the liveness row.
func (r *Registration) SessionID() int64 { return r.session }

// Lost closes when the liveness row has gone or stands under another session, when a write went out under
// another session, or when Reconnect replaced the client: the fleet has declared this star dead, or may.
// What it holds in memory is then worth what its chains' rows say. That Oxia does not answer is no loss;
// see Confirmed.
func (r *Registration) Lost() <-chan struct{} { return r.lost }

// Confirmed is when Oxia last showed that the session stands, by an answer to a read or a write of the
// star's rows. A star whose session is unconfirmed for longer than the session timeout may have been
// declared dead without a way to hear of it.
func (r *Registration) Confirmed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confirmed
}

func (r *Registration) confirm(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.After(r.confirmed) {
		r.confirmed = at
	}
}

func (r *Registration) declareLost(why string) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return // it was given up, not lost
	}
	r.lostOnce.Do(func() {
		r.fleet.log.Warn("the star's session is lost", "star", r.name, "session", r.session, "why", why)
		close(r.lost)
	})
}

// over says whether the registration was lost or closed.
func (r *Registration) over() bool {
	select {
	case <-r.lost:
		return true
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// put writes an ephemeral row on the star's behalf. Oxia's client starts a new session without a word when
// the old one is gone; a row that went out under such a one is removed again, since it would not die with
// the star's others.
func (r *Registration) put(ctx context.Context, path string, row proto.Message, at Version) (oxia.Version, error) {
	if r.over() {
		return oxia.Version{}, fmt.Errorf("write %s: %w", path, ErrSessionLost)
	}
	began := time.Now()
	version, _, err := r.client.putRow(ctx, path, row, at)
	switch {
	case isSessionLost(err):
		r.declareLost("a write of " + path + " found no session")
		return version, err
	case err != nil:
		return version, err
	case version.SessionId != r.session:
		r.declareLost("a write of " + path + " went out under another session")
		_ = r.client.deleteRow(ctx, path, version.VersionId)
		return version, fmt.Errorf("write %s: %w", path, ErrSessionLost)
	}
	r.confirm(began)
	return version, nil
}

// Update changes the liveness row; a change that changes nothing is not written. After ErrUnknown the
// change may stand, and Update may be repeated. ErrSessionLost means that Lost is closed.
func (r *Registration) Update(ctx context.Context, change func(*novav1.StarRow)) error {
	if err := r.star.lock(ctx); err != nil {
		return err
	}
	defer r.star.unlock()
	last := r.Row()
	next := proto.CloneOf(last)
	change(next)
	next.Star = r.name
	if proto.Equal(last, next) && !r.star.unsure && !r.over() {
		return nil
	}
	if err := r.write(ctx, &r.star, next); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row = next
	return nil
}

// Stats writes the star's stats row, a sibling of the liveness row so that load never rewrites routing.
func (r *Registration) Stats(ctx context.Context, row *novav1.StatsRow) error {
	if err := r.stats.lock(ctx); err != nil {
		return err
	}
	defer r.stats.unlock()
	row = proto.CloneOf(row)
	row.Star = r.name
	return r.write(ctx, &r.stats, row)
}

// write writes one of the two rows at the version known. A conflict shows what stands: a write of one's
// own whose answer was lost, the remains of an earlier session's stats, or that the session is gone.
func (r *Registration) write(ctx context.Context, o *ownRow, row proto.Message) error {
	for {
		version, err := r.put(ctx, o.path, row, o.at)
		o.unsure = err != nil
		if err == nil {
			o.at = Version(version.VersionId)
			return nil
		}
		if !isConflict(err) {
			return err
		}
		found, err := r.client.get(ctx, o.path, fleetPartition)
		if err != nil && !isNotFound(err) {
			return err
		}
		if isNotFound(err) || found.version.SessionId != r.session {
			if err := r.look(ctx); err != nil {
				return err
			}
		}
		o.at = Version(found.version.VersionId)
		if isNotFound(err) {
			o.at = Absent
		}
	}
}

// look reads the liveness row: does it still stand under the star's session?
func (r *Registration) look(ctx context.Context) error {
	began := time.Now()
	found, err := r.client.get(ctx, r.star.path, fleetPartition)
	switch {
	case isNotFound(err):
		r.declareLost("the liveness row is gone")
	case err != nil:
		return err
	case found.version.SessionId != r.session:
		r.declareLost("the liveness row stands under another session")
	default:
		r.confirm(began)
		return nil
	}
	return fmt.Errorf("read %s: %w", r.star.path, ErrSessionLost)
}

// Close removes the rows and ends the watch. What another session has written meanwhile stays.
func (r *Registration) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	r.stop()
	<-r.watched
	var errs [2]error
	for i, o := range []*ownRow{&r.star, &r.stats} { // the liveness row first: it is what routes
		if errs[i] = o.lock(ctx); errs[i] == nil { // behind the last write, which would bring the row back
			errs[i] = r.fleet.client().deleteOwn(ctx, o.path, r.session)
			o.unlock()
		}
	}
	return errors.Join(errs[:]...)
}

// watchEvery is how often a star looks at its liveness row.
func (r *Registration) watchEvery() time.Duration {
	return max(r.fleet.cfg.SessionTimeout/5, time.Second)
}

// watchRow reads the own row a few times in each session timeout, until it is lost or given up. Oxia
// deletes an expired session's rows by a list that may be late, so the row of a session that lives can
// vanish as well.
func (r *Registration) watchRow() {
	defer close(r.watched)
	defer r.stop()
	tick := time.NewTicker(r.watchEvery())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.look(r.watching) // what it finds out it declares
		case <-r.lost:
			return
		case <-r.watching.Done():
			return
		}
	}
}
