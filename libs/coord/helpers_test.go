package coord

import (
	"context"
	"log/slog"
	"testing"
	"time"

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

// testConfig is a configuration over one server, which holds both halves.
func testConfig(address string) Config {
	cfg := DefaultConfig()
	cfg.Ephemeral, cfg.Durable = address, address
	cfg.SessionTimeout = MinSessionTimeout
	return cfg
}

// dialFleet returns a handle that is closed when the test ends.
func dialFleet(t testing.TB, cfg Config) *Fleet {
	t.Helper()
	f, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// newFleet is a handle over a server of its own.
func newFleet(t testing.TB) *Fleet { return dialFleet(t, testConfig(startOxia(t, 1).Addr())) }

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
