package coord_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
	"nova.internal/libs/oxiaembed"
)

// startOxia runs an Oxia server until the test ends.
func startOxia(t testing.TB, shards int) *oxiaembed.Server {
	t.Helper()
	s, err := oxiaembed.Start(oxiaembed.Config{Dir: t.TempDir(), Shards: shards, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close oxia: %v", err)
		}
	})
	return s
}

// config is a configuration over one server, which holds both halves.
func config(address string) coord.Config {
	cfg := coord.DefaultConfig()
	cfg.Ephemeral, cfg.Durable = address, address
	cfg.SessionTimeout, cfg.Log = coord.MinSessionTimeout, slog.Default()
	return cfg
}

// dial returns a handle that is closed when the test ends.
func dial(t testing.TB, cfg coord.Config) *coord.Fleet {
	t.Helper()
	f, err := coord.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// newFleet is a handle over a server of its own.
func newFleet(t testing.TB) *coord.Fleet { return dial(t, config(startOxia(t, 1).Addr())) }

// newFaultyFleet is a handle over a server of its own, with faults in between.
func newFaultyFleet(t testing.TB) (*coord.Fleet, *coordtest.Faults) {
	t.Helper()
	cfg, faults := config(startOxia(t, 1).Addr()), &coordtest.Faults{}
	cfg.Wrap = faults.Wrap
	return dial(t, cfg), faults
}

// star is a liveness row.
func star(name, incarnation string) *novav1.StarRow {
	return &novav1.StarRow{Star: name, Incarnation: incarnation, Address: name + ":7000"}
}

func register(t testing.TB, f *coord.Fleet, row *novav1.StarRow) *coord.Registration {
	t.Helper()
	r, err := f.Register(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func acquire(t testing.TB, f *coord.Fleet, id string) coord.Lease {
	t.Helper()
	lease, err := f.Leases().Acquire(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// raw is a client of Oxia itself, for what coord would not do.
func raw(t testing.TB, address string) oxia.SyncClient {
	t.Helper()
	c, err := oxia.NewSyncClient(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fleetRows are the keys of every ephemeral row that stands, at all levels and in all shards.
func fleetRows(t testing.TB, c oxia.SyncClient) []string {
	t.Helper()
	keys, err := c.List(t.Context(), "/fleet/", "/fleet0/")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func isLost(r *coord.Registration) bool {
	select {
	case <-r.Lost():
		return true
	default:
		return false
	}
}

func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v; want %v", err, target)
	}
}

func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&novav1.StarRow{}, "nonce")); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// put writes a row that must be taken.
func put(t testing.TB, f *coord.Fleet, k coord.Key, row proto.Message, at coord.Version) coord.Version {
	t.Helper()
	v, err := f.Rows().Put(t.Context(), k, row, at)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// until waits for ok and fails the test when it does not come true in time.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// within is a context that ends after d.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
