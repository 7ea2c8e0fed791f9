package coord

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

// refreshEvery is the pace of the registry's scan. The snapshot rests on scans, not on notifications,
// whose stream can be cut without a word.
const refreshEvery = time.Second

// Member is one living star and its stats, which are nil until it has published some.
type Member struct {
	Star  *novav1.StarRow
	Stats *novav1.StatsRow
}

// Snapshot is the registry at one moment. Its rows are shared: nobody may change them.
type Snapshot struct {
	Revision int64     // rises when the content changed
	Stars    []Member  // by name
	At       time.Time // when its reading began, also without a change
}

// Member returns the named star.
func (s *Snapshot) Member(star string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(s.Stars, star, func(m Member, name string) int { return cmp.Compare(m.Star.GetStar(), name) })
	if !ok {
		return Member{}, false
	}
	return s.Stars[i], true
}

// Rows returns the snapshot's rows of either kind, in the form in which placement takes them.
func (s *Snapshot) Rows() (stars []*novav1.StarRow, stats []*novav1.StatsRow) {
	for _, m := range s.Stars {
		stars = append(stars, m.Star)
		if m.Stats != nil {
			stats = append(stats, m.Stats)
		}
	}
	return stars, stats
}

// Registry is the fleet's living stars.
type Registry struct {
	fleet    *Fleet
	snap     atomic.Pointer[Snapshot]
	scanning chan struct{} // held by the scan that Within's callers share
}

func newRegistry(f *Fleet) *Registry {
	r := &Registry{fleet: f, scanning: make(chan struct{}, 1)}
	r.snap.Store(&Snapshot{})
	return r
}

// Snapshot returns what the last scan found, at most about a second ago while Oxia answers; At says when.
func (r *Registry) Snapshot() *Snapshot { return r.snap.Load() }

// Refresh scans now.
func (r *Registry) Refresh(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, r.fleet.cfg.RequestTimeout)
	defer cancel()
	next := &Snapshot{At: time.Now()}
	members := map[string]*Member{}
	err := r.scan(ctx, starsPrefix, func(star string, value []byte) bool {
		row := &novav1.StarRow{}
		if proto.Unmarshal(value, row) != nil || row.GetStar() != star {
			return false
		}
		members[star] = &Member{Star: row}
		return true
	})
	if err != nil {
		return nil, err
	}
	err = r.scan(ctx, statsPrefix, func(star string, value []byte) bool {
		row := &novav1.StatsRow{}
		if proto.Unmarshal(value, row) != nil || row.GetStar() != star {
			return false
		}
		if m := members[star]; m != nil { // a sibling whose liveness row has just gone says nothing
			m.Stats = row
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		next.Stars = append(next.Stars, *m)
	}
	slices.SortFunc(next.Stars, func(a, b Member) int { return cmp.Compare(a.Star.GetStar(), b.Star.GetStar()) })
	return r.publish(next), nil
}

// publish makes next the snapshot, unless a scan that began later has been quicker.
func (r *Registry) publish(next *Snapshot) *Snapshot {
	for {
		last := r.snap.Load()
		if next.At.Before(last.At) {
			return last
		}
		next.Revision = last.Revision
		if !same(last.Stars, next.Stars) {
			next.Revision++
		}
		if r.snap.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Within returns a snapshot that is no older than age, scanning when the last one is; callers at the same
// time share a scan. What refuses for want of a star should look twice: a star that has just joined is not
// in every snapshot yet.
func (r *Registry) Within(ctx context.Context, age time.Duration) (*Snapshot, error) {
	if last := r.snap.Load(); time.Since(last.At) <= age {
		return last, nil
	}
	asked := time.Now()
	select {
	case r.scanning <- struct{}{}:
		defer func() { <-r.scanning }()
	case <-ctx.Done():
		return nil, verdict("scan "+starsPrefix, ctx.Err())
	}
	if last := r.snap.Load(); !last.At.Before(asked.Add(-age)) {
		return last, nil // by who scanned meanwhile
	}
	return r.Refresh(ctx)
}

// scan hands the rows below prefix to visit. A row that it cannot read is no reason to be blind for the
// others; it is passed over and logged.
func (r *Registry) scan(ctx context.Context, prefix string, visit func(star string, value []byte) bool) error {
	return r.fleet.client().scan(ctx, prefix, after(prefix), fleetPartition, func(found stored) error {
		if !visit(strings.TrimPrefix(found.key, prefix), found.value) {
			r.fleet.log.Warn("a row of the registry is not readable and is passed over", "row", found.key)
		}
		return nil
	})
}

func same(a, b []Member) bool {
	return slices.EqualFunc(a, b, func(x, y Member) bool { return proto.Equal(x.Star, y.Star) && proto.Equal(x.Stats, y.Stats) })
}

// Star reads the liveness row of one star now. ErrNotFound means that no session stands behind it.
func (r *Registry) Star(ctx context.Context, star string) (*novav1.StarRow, error) {
	row := &novav1.StarRow{}
	if _, err := r.fleet.client().getRow(ctx, starsPrefix+star, row); err != nil {
		return nil, err
	}
	return row, nil
}

// run refreshes the snapshot until ctx ends. It logs when Oxia falls silent and when it is back.
func (r *Registry) run(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	silent := false
	for {
		select {
		case <-tick.C:
			_, err := r.Refresh(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !silent:
				r.fleet.log.Warn("the registry cannot be read", "since", r.Snapshot().At, "err", err)
			case err == nil && silent:
				r.fleet.log.Info("the registry is read again")
			}
			silent = err != nil
		case <-ctx.Done():
			return
		}
	}
}
