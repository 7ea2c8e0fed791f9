package coord_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

// Under the race detector: a client is replaced and closed while others use it.
func TestReconnectingUnderLoadLeavesAFleetThatWorks(t *testing.T) {
	t.Parallel()
	server := startOxia(t, 2)
	f, client := dial(t, config(server.Addr())), raw(t, server.Addr())
	old := register(t, f, star("a", "A1"))
	load, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 8 {
		id := string(rune('s' + i))
		all.Go(func() {
			for load.Err() == nil {
				if lease, err := f.Leases().Acquire(load, id, false); err == nil {
					_ = f.Leases().Release(load, lease)
				}
				_, _ = f.Registry().Within(load, 0)
				_, _ = f.Leases().Holder(load, id)
			}
		})
	}
	var r *coord.Registration
	for range 10 {
		if err := f.Reconnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		r = register(t, f, star("a", "A1"))
	}
	stop()
	all.Wait()
	if !isLost(old) || isLost(r) {
		t.Errorf("the first registration is lost: %t; the last: %t", isLost(old), isLost(r))
	}
	acquire(t, f, "z")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, 5*time.Second, "no row is left", func() bool { return len(fleetRows(t, client)) == 0 })
	if err := f.Reconnect(t.Context()); err == nil {
		t.Error("a closed fleet was connected again")
	}
}

// The rows that a registration in progress wrote have gone with the client that was replaced.
func TestARegistrationDoesNotSurviveItsClient(t *testing.T) {
	f, faults := newFaultyFleet(t)
	reads := 0
	faults.On("get", "/nova/tombstones/", func(_ context.Context, apply func() error) error {
		if reads++; reads == 2 { // after the row stands
			if err := f.Reconnect(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return apply()
	})
	if _, err := f.Register(t.Context(), star("a", "A1")); err == nil {
		t.Fatal("registered without a row")
	}
	_, err := f.Leases().Acquire(t.Context(), "s", false)
	want(t, err, coord.ErrNotRegistered)
	register(t, f, star("a", "A1"))
}

func TestReconnectingInVainChangesNothing(t *testing.T) {
	t.Parallel()
	server := startOxia(t, 1)
	proxy := coordtest.NewProxy(t, server.Addr())
	cfg := config(proxy.Addr())
	cfg.SessionTimeout = time.Minute
	f := dial(t, cfg)
	r := register(t, f, star("a", "A1"))
	proxy.Cut()
	if err := f.Reconnect(within(t, 500*time.Millisecond)); err == nil || !strings.Contains(err.Error(), proxy.Addr()) {
		t.Fatalf("error is %v", err)
	}
	proxy.Mend()
	if isLost(r) {
		t.Error("lost")
	}
	until(t, 10*time.Second, "an update is taken", func() bool {
		return r.Update(t.Context(), func(row *novav1.StarRow) { row.Saturated = true }) == nil
	})
}

func TestClosingAFleetIsBoundedWhenOxiaIsAway(t *testing.T) {
	t.Parallel()
	server := startOxia(t, 1)
	proxy := coordtest.NewProxy(t, server.Addr())
	cfg := config(proxy.Addr())
	f := dial(t, cfg)
	r := register(t, f, star("a", "A1"))
	proxy.Stall()
	began := time.Now()
	_ = r.Close(within(t, time.Second))
	if err := f.Close(); err == nil {
		t.Error("an end that nobody heard of is called clean")
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
}

// A star that comes back over a client that could not close its session takes its own row over.
func TestAStarComesBackOverItsOwnRow(t *testing.T) {
	t.Parallel()
	server := startOxia(t, 1)
	proxy, client := coordtest.NewProxy(t, server.Addr()), raw(t, server.Addr())
	cfg := config(proxy.Addr())
	cfg.SessionTimeout = time.Minute
	before := dial(t, cfg)
	old := register(t, before, star("a", "A1"))
	proxy.Cut()
	cfg.Ephemeral, cfg.Durable = server.Addr(), server.Addr()
	f := dial(t, cfg)
	began := time.Now()
	r := register(t, f, star("a", "A1"))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if r.SessionID() == old.SessionID() {
		t.Error("the session is the old one")
	}
	proxy.Mend()
	until(t, 15*time.Second, "the old client is connected again", func() bool {
		_, err := before.Registry().Refresh(t.Context())
		return err == nil
	})
	if err := before.Close(); err != nil { // the old session ends: the row is not its any more
		t.Fatal(err)
	}
	if stand := fleetRows(t, client); len(stand) != 1 {
		t.Errorf("rows: %v", stand)
	}
}
