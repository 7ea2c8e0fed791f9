package coord

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oxia-db/oxia/oxia"
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
	At       time.Time // when it was read last, also without a change
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
	fleet *Fleet
	snap  atomic.Pointer[Snapshot]
}

func newRegistry(f *Fleet) *Registry {
	r := &Registry{fleet: f}
	r.snap.Store(&Snapshot{})
	return r
}

// Snapshot returns what the last scan found, at most about a second ago while Oxia answers; At says when.
func (r *Registry) Snapshot() *Snapshot { return r.snap.Load() }

// Refresh scans now.
func (r *Registry) Refresh(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, r.fleet.cfg.RequestTimeout)
	defer cancel()
	members := map[string]*Member{}
	err := r.scan(ctx, starsPrefix, func(star string, value []byte) error {
		row := &novav1.StarRow{}
		members[star] = &Member{Star: row}
		return proto.Unmarshal(value, row)
	})
	if err != nil {
		return nil, err
	}
	err = r.scan(ctx, statsPrefix, func(star string, value []byte) error {
		row := &novav1.StatsRow{}
		if m := members[star]; m != nil { // a sibling whose liveness row has just gone says nothing
			m.Stats = row
		}
		return proto.Unmarshal(value, row)
	})
	if err != nil {
		return nil, err
	}
	next := &Snapshot{At: time.Now()}
	for _, m := range members {
		next.Stars = append(next.Stars, *m)
	}
	slices.SortFunc(next.Stars, func(a, b Member) int { return cmp.Compare(a.Star.GetStar(), b.Star.GetStar()) })
	for {
		last := r.snap.Load()
		if next.At.Before(last.At) { // a slower scan does not undo a later one
			return last, nil
		}
		next.Revision = last.Revision
		if !same(last.Stars, next.Stars) {
			next.Revision++
		}
		if r.snap.CompareAndSwap(last, next) {
			return next, nil
		}
	}
}

// Within returns a snapshot that is no older than age, scanning when the last one is. What refuses for
// want of a star should look twice: a star that has just joined is not in every snapshot yet.
func (r *Registry) Within(ctx context.Context, age time.Duration) (*Snapshot, error) {
	if last := r.snap.Load(); time.Since(last.At) <= age {
		return last, nil
	}
	return r.Refresh(ctx)
}

func (r *Registry) scan(ctx context.Context, prefix string, visit func(star string, value []byte) error) error {
	return scan(ctx, r.fleet.kv(), prefix, after(prefix), fleetPartition, func(g oxia.GetResult) error {
		if err := visit(strings.TrimPrefix(g.Key, prefix), g.Value); err != nil {
			return fmt.Errorf("decode %s: %w", g.Key, err)
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
	_, err := r.fleet.getEphemeral(ctx, starsPrefix+star, row)
	if err != nil {
		return nil, err
	}
	return row, nil
}

// run refreshes the snapshot until ctx ends.
func (r *Registry) run(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := r.Refresh(ctx); err != nil && ctx.Err() == nil {
				r.fleet.log.Warn("the registry was not refreshed", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// getEphemeral reads one ephemeral row.
func (f *Fleet) getEphemeral(ctx context.Context, path string, row proto.Message) (oxia.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.RequestTimeout)
	defer cancel()
	_, value, version, err := f.kv().Get(ctx, path, oxia.PartitionKey(fleetPartition))
	if err != nil {
		return version, verdict("read "+path, err)
	}
	if err := proto.Unmarshal(value, row); err != nil {
		return version, fmt.Errorf("decode %s: %w", path, err)
	}
	return version, nil
}

// putRow writes one ephemeral row and resolves a conflict with the own write by the nonce.
func (f *Fleet) putRow(ctx context.Context, path string, row proto.Message, at Version) (oxia.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.RequestTimeout)
	defer cancel()
	nonce := sign(row)
	value, err := proto.Marshal(row)
	if err != nil {
		return oxia.Version{}, fmt.Errorf("encode %s: %w", path, err)
	}
	version, err := putEphemeral(ctx, f.kv(), path, value, at)
	if !isConflict(err) {
		return version, err
	}
	_, stands, version, gerr := f.kv().Get(ctx, path, oxia.PartitionKey(fleetPartition))
	if gerr == nil && nonceIs(row, stands, nonce) {
		return version, nil
	}
	return oxia.Version{}, err
}

// deleteRow removes one ephemeral row at its version; one that changed or is gone is left as it is.
func (f *Fleet) deleteRow(ctx context.Context, path string, at int64) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.RequestTimeout)
	defer cancel()
	err := verdict("delete "+path, f.kv().Delete(ctx, path, oxia.PartitionKey(fleetPartition), oxia.ExpectedVersionId(at)))
	if isConflict(err) || isNotFound(err) {
		return nil
	}
	return err
}
