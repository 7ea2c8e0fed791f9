package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"nova.internal/libs/api/novav1"
)

// ErrNotRegistered: only a registered star takes leases, and one whose session is lost is none.
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
//
// An acquisition that the caller's context cut short is undone when its answer comes after all; one whose
// answer Oxia never gave may stand, and the next Acquire heals it.
func (l Leases) Acquire(ctx context.Context, id string, settling bool) (Lease, error) {
	m, err := l.fleet.member()
	if err != nil {
		return Lease{}, err
	}
	me, path := m.Row(), leasesPrefix+id
	for {
		row := &novav1.LeaseRow{Star: me.GetStar(), Incarnation: me.GetIncarnation(), AcquiredUnixMs: time.Now().UnixMilli(), Settling: settling}
		version, err := m.put(ctx, path, row, Absent)
		if err == nil {
			return Lease{ID: id, Row: row, Version: version.VersionId}, nil
		}
		if !isConflict(err) {
			return Lease{}, err
		}
		stands := &novav1.LeaseRow{}
		old, err := m.client.getRow(ctx, path, stands)
		switch {
		case isNotFound(err): // released in between
			continue
		case err != nil:
			return Lease{}, err
		case stands.GetStar() != me.GetStar() || stands.GetIncarnation() != me.GetIncarnation():
			return Lease{}, &HeldError{Row: stands}
		}
		version, err = m.put(ctx, path, row, Version(old.VersionId))
		switch {
		case err == nil:
			return Lease{ID: id, Row: row, Version: version.VersionId, Healed: true, Age: time.Since(time.UnixMilli(stands.GetAcquiredUnixMs()))}, nil
		case !isConflict(err):
			return Lease{}, err
		}
	}
}

// Holder reads who holds the stream's lease now. ErrNotFound: nobody.
func (l Leases) Holder(ctx context.Context, id string) (*novav1.LeaseRow, error) {
	row := &novav1.LeaseRow{}
	if _, err := l.fleet.client().getRow(ctx, leasesPrefix+id, row); err != nil {
		return nil, err
	}
	return row, nil
}

// Release lets a lease go. It deletes at the version acquired, so one that was healed or taken since
// stays; that, and one that is gone, is no error.
func (l Leases) Release(ctx context.Context, lease Lease) error {
	return l.fleet.client().deleteRow(ctx, leasesPrefix+lease.ID, lease.Version)
}

// Own lists the leases of this star's incarnation, by stream id.
func (l Leases) Own(ctx context.Context) ([]Lease, error) {
	m, err := l.fleet.member()
	if err != nil {
		return nil, err
	}
	me := m.Row()
	var own []Lease
	err = m.client.scan(ctx, leasesPrefix, after(leasesPrefix), fleetPartition, func(found stored) error {
		stands := &novav1.LeaseRow{}
		if err := Decode(found.key, found.value, stands); err != nil {
			return err
		}
		if stands.GetStar() == me.GetStar() && stands.GetIncarnation() == me.GetIncarnation() {
			own = append(own, Lease{ID: strings.TrimPrefix(found.key, leasesPrefix), Row: stands, Version: found.version.VersionId})
		}
		return nil
	})
	return own, err
}
