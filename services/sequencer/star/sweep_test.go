package star

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"nova.internal/libs/coord"
)

// orphaned leaves the stream's lease standing in the star's name with nothing behind it, as an acquisition
// does whose answer was lost.
func (f *testFleet) orphaned(star *testStar, id string) {
	f.t.Helper()
	if _, err := star.fleet.Leases().Acquire(f.t.Context(), id, false); err != nil {
		f.t.Fatal(err)
	}
}

func (f *testFleet) leased(id string) bool {
	f.t.Helper()
	_, err := f.meta.Leases().Holder(f.t.Context(), id)
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		f.t.Fatal(err)
	}
	return err == nil
}

// TestTheNextOpenHealsAnOrphanedLease serves over a lease that nobody knew of, counts it, and lets it go at
// the end like any other.
func TestTheNextOpenHealsAnOrphanedLease(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond })
	one := f.start("one")
	row := f.create("orders", anyMode, standard)
	f.orphaned(one, row.GetId())
	stale, err := one.fleet.Leases().Own(t.Context())
	if err != nil || len(stale) != 1 {
		t.Fatalf("own leases: %v, %v", stale, err)
	}
	p := f.open("one", "orders")
	if n := testutil.ToFloat64(one.report.heals); n != 1 {
		t.Errorf("nova_lease_heals_total = %v, want 1", n)
	}
	if err := one.fleet.Leases().Release(t.Context(), stale[0]); err != nil { // the one that was late
		t.Fatal(err)
	}
	if !f.leased(row.GetId()) {
		t.Error("a late release took the healed lease away")
	}
	p.append("a")
	p.close()
	eventually(t, "the lease is let go", 5*time.Second, func() bool { return !f.leased(row.GetId()) })
}

// TestTheSweepReleasesOrphansAndNothingElse lets go of a lease with nothing behind it, keeps that of a
// leadership, and puts back one that a leadership misses.
func TestTheSweepReleasesOrphansAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *Config) { c.SweepInterval = time.Hour })
	one := f.start("one")
	led, orphan := f.create("led", anyMode, standard), f.create("orphan", anyMode, standard)
	p := f.open("one", "led")
	f.orphaned(one, orphan.GetId())
	if err := one.sweepLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.leased(orphan.GetId()) || !f.leased(led.GetId()) {
		t.Errorf("after a sweep the orphan stands: %v, the led stream's lease: %v", f.leased(orphan.GetId()), f.leased(led.GetId()))
	}
	if n := testutil.ToFloat64(one.report.orphans); n != 1 {
		t.Errorf("nova_lease_orphans_released_total = %v, want 1", n)
	}

	own, err := one.fleet.Leases().Own(t.Context())
	if err != nil || len(own) != 1 {
		t.Fatalf("own leases: %v, %v", own, err)
	}
	if err := f.meta.Leases().Release(t.Context(), own[0]); err != nil { // Oxia's late removal
		t.Fatal(err)
	}
	if err := one.sweepLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !f.leased(led.GetId()) {
		t.Error("the sweep did not put back the lease of a leadership")
	}
	p.append("a")
	f.stopStar("one")
	if f.leased(led.GetId()) {
		t.Error("the lease that was put back outlived the leadership")
	}
}
