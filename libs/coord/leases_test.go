package coord_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

func TestALeaseHasOneHolder(t *testing.T) {
	address := startOxia(t, 1).Addr()
	a, b := dial(t, config(address)), dial(t, config(address))
	register(t, a, star("a", "A1"))
	register(t, b, star("b", "B1"))
	_, err := a.Leases().Holder(t.Context(), "s")
	want(t, err, coord.ErrNotFound)

	lease := acquire(t, a, "s")
	if lease.Healed || lease.Row.GetStar() != "a" || lease.Row.GetIncarnation() != "A1" || lease.Row.GetAcquiredUnixMs() == 0 {
		t.Errorf("lease is %v, healed %t", lease.Row, lease.Healed)
	}
	var held *coord.HeldError
	if _, err := b.Leases().Acquire(t.Context(), "s", false); !errors.As(err, &held) || held.Row.GetStar() != "a" {
		t.Fatalf("another star's acquisition: %v", err)
	}
	if row, err := b.Leases().Holder(t.Context(), "s"); err != nil || row.GetStar() != "a" {
		t.Fatalf("holder is %v, %v", row, err)
	}
	for range 2 { // a release may be repeated
		if err := a.Leases().Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	acquire(t, b, "s")
}

func TestOfManyAcquisitionsOneWins(t *testing.T) {
	address := startOxia(t, 1).Addr()
	var all sync.WaitGroup
	var won atomic.Int64
	for _, name := range []string{"a", "b", "c"} {
		f := dial(t, config(address))
		register(t, f, star(name, name+"1"))
		all.Go(func() {
			var held *coord.HeldError
			if _, err := f.Leases().Acquire(t.Context(), "s", false); err == nil {
				won.Add(1)
			} else if !errors.As(err, &held) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d stars hold the lease", won.Load())
	}
}

func TestOnlyARegisteredStarTakesLeases(t *testing.T) {
	f := newFleet(t)
	_, err := f.Leases().Acquire(t.Context(), "s", false)
	want(t, err, coord.ErrNotRegistered)
	r := register(t, f, star("a", "A1"))
	acquire(t, f, "s")
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = f.Leases().Acquire(t.Context(), "t", false)
	want(t, err, coord.ErrNotRegistered)
}

// The leak that the open gate heals: the answer of an acquisition was lost.
func TestALostAcquisitionIsHealedAndALateReleaseLeavesTheHealedLease(t *testing.T) {
	f, faults := newFaultyFleet(t)
	register(t, f, star("a", "A1"))
	first := acquire(t, f, "s")

	again := acquire(t, f, "s") // nobody here remembers the first
	if !again.Healed || again.Age < 0 || again.Age > time.Minute || again.Version == first.Version {
		t.Fatalf("healed %t, age %v, version %d after %d", again.Healed, again.Age, again.Version, first.Version)
	}
	if err := f.Leases().Release(t.Context(), first); err != nil { // comes late
		t.Fatal(err)
	}
	if row, err := f.Leases().Holder(t.Context(), "s"); err != nil || row.GetStar() != "a" {
		t.Fatalf("the late release took the healed lease: %v, %v", row, err)
	}

	faults.On("put", "/fleet/leases/t", coordtest.Lose).Times(1)
	_, err := f.Leases().Acquire(t.Context(), "t", true)
	want(t, err, coord.ErrUnknown)
	if healed := acquire(t, f, "t"); !healed.Healed || healed.Row.GetSettling() {
		t.Errorf("healed %t, for settling %t", healed.Healed, healed.Row.GetSettling())
	}
	faults.On("put", "/fleet/leases/u", coordtest.Repeat).Times(1)
	if own := acquire(t, f, "u"); own.Healed {
		t.Error("an acquisition that the client itself repeated is called an orphan")
	}
}

// "A cancelled open cannot leave its lease standing."
func TestAnAcquisitionThatItsCallerCutShortDoesNotStand(t *testing.T) {
	f, faults := newFaultyFleet(t)
	register(t, f, star("a", "A1"))
	release := make(chan struct{})
	rule := faults.On("put", "/fleet/leases/", coordtest.Hold(release)).Times(1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for rule.Hits() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := f.Leases().Acquire(ctx, "s", false)
	want(t, err, coord.ErrUnknown)
	undone := faults.On("delete", "/fleet/leases/s", func(_ context.Context, apply func() error) error { return apply() })
	close(release)
	until(t, 5*time.Second, "the acquisition is undone", func() bool { return undone.Hits() == 1 })
	until(t, 5*time.Second, "no lease stands", func() bool {
		_, err := f.Leases().Holder(t.Context(), "s")
		return errors.Is(err, coord.ErrNotFound)
	})
}

func TestOwnListsTheIncarnationsLeases(t *testing.T) {
	address := startOxia(t, 1).Addr()
	a, b := dial(t, config(address)), dial(t, config(address))
	_, err := a.Leases().Own(t.Context())
	want(t, err, coord.ErrNotRegistered)
	register(t, a, star("a", "A1"))
	register(t, b, star("b", "B1"))
	first, second := acquire(t, a, "s1"), acquire(t, a, "s2")
	acquire(t, b, "s3")
	own, err := a.Leases().Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "own leases", []coord.Lease{first, second}, own)
}

func TestARoleIsHeldByOne(t *testing.T) {
	address := startOxia(t, 1).Addr()
	a, b := dial(t, config(address)), dial(t, config(address))
	ctx := t.Context()
	role, err := a.Roles().Claim(ctx, "fence/a/01J/standard")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*coord.Fleet{a, b} {
		_, err := f.Roles().Claim(ctx, "fence/a/01J/standard")
		want(t, err, coord.ErrHeld)
	}
	if _, err := b.Roles().Claim(ctx, "settle/a/01J/standard"); err != nil {
		t.Errorf("another role: %v", err)
	}
	for range 2 {
		if err := role.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Roles().Claim(ctx, "fence/a/01J/standard"); err != nil {
		t.Fatal(err)
	}
	if err := role.Release(ctx); err != nil { // late: it is b's by now
		t.Fatal(err)
	}
	_, err = a.Roles().Claim(ctx, "fence/a/01J/standard")
	want(t, err, coord.ErrHeld)
}

func TestAClaimWhoseAnswerWasLostIsRecognisedOnce(t *testing.T) {
	cfg, faults := config(startOxia(t, 1).Addr()), &coordtest.Faults{}
	other := dial(t, cfg)
	cfg.Wrap = faults.Wrap
	f := dial(t, cfg)
	faults.On("put", "/fleet/roles/", coordtest.Lose).Times(1)
	_, err := f.Roles().Claim(t.Context(), "drainer")
	want(t, err, coord.ErrUnknown)
	_, err = other.Roles().Claim(t.Context(), "drainer")
	want(t, err, coord.ErrHeld)
	role, err := f.Roles().Claim(t.Context(), "drainer")
	if err != nil {
		t.Fatalf("the own claim is not recognised: %v", err)
	}
	_, err = f.Roles().Claim(t.Context(), "drainer")
	want(t, err, coord.ErrHeld)
	if err := role.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Roles().Claim(t.Context(), "drainer"); err != nil {
		t.Fatal(err)
	}
}
