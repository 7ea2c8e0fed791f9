package placer

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"nova.internal/libs/coord"
	"nova.internal/libs/placement"
)

// lookTwice is how old a snapshot may be that says there is no star to lead.
const lookTwice = 10 * time.Millisecond

// view is the registry as placement sees it. The registry changes once a second at most and is asked far
// more often, so what was made of a snapshot is kept until the next one.
type view struct {
	registry registry
	last     atomic.Pointer[made]
	looks    singleflight.Group
}

type made struct {
	of    *coord.Snapshot
	fleet placement.Snapshot
}

// now is the fleet by the newest scan.
func (v *view) now() placement.Snapshot {
	snap := v.registry.Snapshot()
	if last := v.last.Load(); last != nil && last.of == snap {
		return last.fleet
	}
	stars, stats := snap.Rows()
	m := &made{snap, placement.FromRows(snap.Revision, stars, stats)}
	v.last.Store(m)
	return m.fleet
}

// again is the fleet as it is right now. Callers at the same time share one scan: a full fleet is where
// opens repeat most, and they must not bury the metastore.
func (v *view) again(ctx context.Context) (placement.Snapshot, error) {
	_, err, _ := v.looks.Do("", func() (any, error) {
		// One caller's leaving must not fail the others. The registry bounds its scan by itself.
		return v.registry.Within(context.WithoutCancel(ctx), lookTwice)
	})
	return v.now(), err
}
