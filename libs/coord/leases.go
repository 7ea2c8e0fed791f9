package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

func isConflict(err error) bool { return errors.Is(err, ErrConflict) }
func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// ErrNotRegistered: only a registered star takes leases.
var ErrNotRegistered = errors.New("this process is not a registered star")

// Leases are the advisory writer leases. They keep cooperating stars from fighting over a stream and
// route producers and hot reads to the holder; they keep no stale writer out.
type Leases struct{ fleet *Fleet }

// Lease is one lease that this star holds.
type Lease struct {
	ID      string
	Row     *novav1.LeaseRow
	Version int64
	Healed  bool          // it stood already, without the caller's knowing: an orphan of this star
	Age     time.Duration // of a healed lease, by its acquisition stamp
}

// HeldError says whose lease stands.
type HeldError struct{ Row *novav1.LeaseRow }

func (e *HeldError) Error() string {
	return fmt.Sprintf("star %s holds the stream's lease", e.Row.GetStar())
}

// Acquire takes the stream's lease. A lease of this very incarnation that stands already is written
// again, which re-attaches it to the session and voids any late release of the older one.
func (l Leases) Acquire(ctx context.Context, id string, settling bool) (Lease, error) {
	me := l.fleet.me()
	if me == nil {
		return Lease{}, ErrNotRegistered
	}
	path := leasesPrefix + id
	row := &novav1.LeaseRow{Star: me.GetStar(), Incarnation: me.GetIncarnation(), AcquiredUnixMs: time.Now().UnixMilli(), Settling: settling}
	version, err := l.fleet.putRow(ctx, path, row, Absent)
	if err == nil {
		return Lease{ID: id, Row: row, Version: version.VersionId}, nil
	}
	if !isConflict(err) {
		return Lease{}, err
	}
	stands := &novav1.LeaseRow{}
	old, err := l.fleet.getEphemeral(ctx, path, stands)
	switch {
	case isNotFound(err):
		return l.Acquire(ctx, id, settling)
	case err != nil:
		return Lease{}, err
	case stands.GetStar() != me.GetStar() || stands.GetIncarnation() != me.GetIncarnation():
		return Lease{}, &HeldError{Row: stands}
	}
	version, err = l.fleet.putRow(ctx, path, row, Version(old.VersionId))
	if isConflict(err) {
		return l.Acquire(ctx, id, settling)
	}
	if err != nil {
		return Lease{}, err
	}
	return Lease{ID: id, Row: row, Version: version.VersionId, Healed: true, Age: time.Since(time.UnixMilli(stands.GetAcquiredUnixMs()))}, nil
}

// Holder reads who holds the stream's lease now. ErrNotFound: nobody.
func (l Leases) Holder(ctx context.Context, id string) (*novav1.LeaseRow, error) {
	row := &novav1.LeaseRow{}
	if _, err := l.fleet.getEphemeral(ctx, leasesPrefix+id, row); err != nil {
		return nil, err
	}
	return row, nil
}

// Release lets a lease go. It deletes at the version acquired, so one that was healed or taken since
// stays.
func (l Leases) Release(ctx context.Context, lease Lease) error {
	return l.fleet.deleteRow(ctx, leasesPrefix+lease.ID, lease.Version)
}

// Own lists the leases of this star's incarnation.
func (l Leases) Own(ctx context.Context) ([]Lease, error) {
	me := l.fleet.me()
	if me == nil {
		return nil, ErrNotRegistered
	}
	ctx, cancel := context.WithTimeout(ctx, l.fleet.cfg.RequestTimeout)
	defer cancel()
	var own []Lease
	err := scan(ctx, l.fleet.kv(), leasesPrefix, after(leasesPrefix), fleetPartition, func(g oxia.GetResult) error {
		row := &novav1.LeaseRow{}
		if err := proto.Unmarshal(g.Value, row); err != nil {
			return fmt.Errorf("decode %s: %w", g.Key, err)
		}
		if row.GetStar() == me.GetStar() && row.GetIncarnation() == me.GetIncarnation() {
			own = append(own, Lease{ID: strings.TrimPrefix(g.Key, leasesPrefix), Row: row, Version: g.Version.VersionId})
		}
		return nil
	})
	return own, err
}
