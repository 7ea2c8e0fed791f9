package coord_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

// expired is how long a session may outlive its last heartbeat: the timeout, and some for a busy machine.
const expired = coord.MinSessionTimeout + 5*time.Second

// cutStar is a star behind a proxy, and what another process sees.
type cutStar struct {
	fleet  *coord.Fleet
	faults *coordtest.Faults
	proxy  *coordtest.Proxy
	sees   oxia.SyncClient
}

func newCutStar(t *testing.T, shards int) cutStar {
	server := startOxia(t, shards)
	s := cutStar{faults: &coordtest.Faults{}, proxy: coordtest.NewProxy(t, server.Addr()), sees: raw(t, server.Addr())}
	cfg := config(server.Addr())
	cfg.Ephemeral, cfg.Wrap, cfg.RequestTimeout = s.proxy.Addr(), s.faults.Wrap, time.Second
	s.fleet = dial(t, cfg)
	return s
}

func (s cutStar) gone(t *testing.T) {
	t.Helper()
	until(t, expired, "no row is left", func() bool { return len(fleetRows(t, s.sees)) == 0 })
}

// S03: whatever wrote an ephemeral row, first or again, the row dies with the session. The client is
// killed as a process is: the wire goes, and nothing is closed.
func TestNoWritePathMakesAnEphemeralRowOutliveItsSession(t *testing.T) {
	t.Parallel()
	for name, shards := range map[string]int{"one shard": 1, "four shards": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCutStar(t, shards)
			f, ctx := s.fleet, t.Context()
			lose := func(prefix string) { s.faults.On("put", prefix, coordtest.Lose).Times(1) }
			repeat := func(prefix string) { s.faults.On("put", prefix, coordtest.Repeat).Times(1) }

			lose("/fleet/stars/")
			if _, err := f.Register(ctx, star("a", "A1")); !errors.Is(err, coord.ErrUnknown) {
				t.Fatal(err)
			}
			r := register(t, f, star("a", "A1")) // over the row that stands
			lose("/fleet/stars/")
			_ = r.Update(ctx, func(row *novav1.StarRow) { row.Draining = novav1.Draining_DRAINING_SERVING })
			repeat("/fleet/stars/")
			for _, saturated := range []bool{true, false} {
				if err := r.Update(ctx, func(row *novav1.StarRow) { row.Saturated = saturated }); err != nil {
					t.Fatal(err)
				}
			}
			lose("/fleet/stats/")
			_ = r.Stats(ctx, &novav1.StatsRow{Leaders: 1})
			for leaders := range int64(3) {
				if err := r.Stats(ctx, &novav1.StatsRow{Leaders: leaders}); err != nil {
					t.Fatal(err)
				}
			}
			acquire(t, f, "s")
			acquire(t, f, "s") // healed
			repeat("/fleet/leases/")
			acquire(t, f, "s") // healed again
			lose("/fleet/leases/t")
			_, _ = f.Leases().Acquire(ctx, "t", true)
			lose("/fleet/roles/")
			_, _ = f.Roles().Claim(ctx, "settle/a/A1/standard")
			for _, path := range []string{"settle/a/A1/standard", "fence/b/B1/express", "drainer"} {
				if _, err := f.Roles().Claim(ctx, path); err != nil {
					t.Fatal(err)
				}
			}

			if stand := fleetRows(t, s.sees); len(stand) != 7 {
				t.Fatalf("rows: %v", stand)
			}
			rows := s.sees.RangeScan(ctx, "/fleet/", "/fleet0/")
			for g := range rows {
				if g.Err != nil || !g.Version.Ephemeral || g.Version.SessionId != r.SessionID() {
					t.Errorf("%s: ephemeral %t, session %d of %d, %v", g.Key, g.Version.Ephemeral, g.Version.SessionId, r.SessionID(), g.Err)
				}
			}
			s.proxy.Cut()
			s.gone(t)
		})
	}
}

// S02: the star was cut off, or stopped, for longer than its session lasts.
func TestALostSessionIsNoticedAndTheStarComesBack(t *testing.T) {
	t.Parallel()
	t.Run("cut off", func(t *testing.T) { t.Parallel(); comesBack(t, (*coordtest.Proxy).Cut) })
	t.Run("stopped", func(t *testing.T) { t.Parallel(); comesBack(t, (*coordtest.Proxy).Stall) })
}

func comesBack(t *testing.T, interrupt func(*coordtest.Proxy)) {
	s := newCutStar(t, 1)
	r := register(t, s.fleet, star("a", "A1"))
	lease := acquire(t, s.fleet, "s")
	interrupt(s.proxy)
	s.gone(t)
	if isLost(r) {
		t.Error("lost before anybody could know")
	}
	s.proxy.Mend()
	select {
	case <-r.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("not noticed")
	}
	_, err := s.fleet.Leases().Acquire(t.Context(), "t", false)
	want(t, err, coord.ErrNotRegistered)
	want(t, r.Update(t.Context(), func(row *novav1.StarRow) { row.Saturated = true }), coord.ErrSessionLost)
	want(t, r.Stats(t.Context(), &novav1.StatsRow{}), coord.ErrSessionLost)

	if err := s.fleet.Reconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := register(t, s.fleet, star("a", "A1"))
	if again.SessionID() == r.SessionID() {
		t.Error("the session is the old one")
	}
	if back := acquire(t, s.fleet, "s"); back.Healed || back.Version == lease.Version {
		t.Errorf("healed %t, version %d after %d", back.Healed, back.Version, lease.Version)
	}
	if isLost(again) {
		t.Error("lost again")
	}
	if err := r.Close(t.Context()); err != nil { // of the old one: it owns nothing any more
		t.Fatal(err)
	}
	if stand := fleetRows(t, s.sees); len(stand) != 2 {
		t.Errorf("rows: %v", stand)
	}
}

// estranged is an Oxia client that has started a new session by itself, as it does at the first ephemeral
// put after it noticed that the old one is gone.
type estranged struct {
	coord.KV
	since atomic.Bool
}

func (e *estranged) Put(ctx context.Context, key string, value []byte, options ...oxia.PutOption) (string, oxia.Version, error) {
	at, version, err := e.KV.Put(ctx, key, value, options...)
	if e.since.Load() {
		version.SessionId += 1000
	}
	return at, version, err
}

// starWrites are the ways in which a registered star writes ephemeral rows, and where to.
var starWrites = map[string]func(context.Context, *coord.Fleet, *coord.Registration) error{
	"/fleet/leases/s": func(ctx context.Context, f *coord.Fleet, _ *coord.Registration) error {
		_, err := f.Leases().Acquire(ctx, "s", false)
		return err
	},
	"/fleet/stats/a": func(ctx context.Context, _ *coord.Fleet, r *coord.Registration) error {
		return r.Stats(ctx, &novav1.StatsRow{Leaders: 1})
	},
	"/fleet/stars/a": func(ctx context.Context, _ *coord.Fleet, r *coord.Registration) error {
		return r.Update(ctx, func(row *novav1.StarRow) { row.Saturated = !row.GetSaturated() })
	},
}

// What went out under such a session must not stand: it would not die with the star's other rows, and the
// star takes itself for dead.
func TestARowUnderASessionThatTheStarDoesNotKnowIsRemoved(t *testing.T) {
	for key, write := range starWrites {
		t.Run(key, func(t *testing.T) {
			server := startOxia(t, 1)
			kv, client, cfg := &estranged{}, raw(t, server.Addr()), config(server.Addr())
			cfg.Wrap = func(store string, inner coord.KV) coord.KV {
				if store != "ephemeral" {
					return inner
				}
				kv.KV = inner
				return kv
			}
			f := dial(t, cfg)
			r := register(t, f, star("a", "A1"))
			kv.since.Store(true)
			want(t, write(t.Context(), f, r), coord.ErrSessionLost)
			if !isLost(r) {
				t.Error("not declared lost")
			}
			if stand := fleetRows(t, client); slices.Contains(stand, key) {
				t.Errorf("rows: %v", stand)
			}
		})
	}
}

// The writes themselves notice a lost session, also before the next look at the own row.
func TestAWriteNoticesALostSession(t *testing.T) {
	t.Parallel()
	for key, write := range starWrites {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := newCutStar(t, 1)
			r := register(t, s.fleet, star("a", "A1"))
			s.proxy.Cut()
			s.gone(t)
			s.proxy.Mend()
			until(t, 20*time.Second, "a write notices it", func() bool {
				if err := write(t.Context(), s.fleet, r); err == nil {
					t.Fatal("a write succeeded")
				}
				return isLost(r)
			})
			until(t, 5*time.Second, "no row is left", func() bool { return len(fleetRows(t, s.sees)) == 0 })
		})
	}
}

func TestAnInterruptionShorterThanTheSessionIsNoLoss(t *testing.T) {
	t.Parallel()
	server := startOxia(t, 1)
	proxy := coordtest.NewProxy(t, server.Addr())
	cfg := config(proxy.Addr())
	cfg.SessionTimeout = 20 * time.Second
	f := dial(t, cfg)
	r := register(t, f, star("a", "A1"))
	proxy.Cut()
	began := time.Now()
	time.Sleep(500 * time.Millisecond)
	if r.Confirmed().After(began) {
		t.Errorf("confirmed at %v, after the cut at %v", r.Confirmed(), began)
	}
	proxy.Mend()
	until(t, 15*time.Second, "the session is confirmed", func() bool { return r.Confirmed().After(began.Add(500 * time.Millisecond)) })
	if isLost(r) {
		t.Error("lost")
	}
}

func TestALivenessRowThatIsTakenAwayIsALoss(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*testing.T, oxia.SyncClient){
		"deleted": func(t *testing.T, c oxia.SyncClient) {
			if err := c.Delete(t.Context(), "/fleet/stars/a", oxia.PartitionKey("fleet")); err != nil {
				t.Fatal(err)
			}
		},
		"another's": func(t *testing.T, c oxia.SyncClient) {
			if _, _, err := c.Put(t.Context(), "/fleet/stars/a", nil, oxia.PartitionKey("fleet"), oxia.Ephemeral()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startOxia(t, 1)
			f, client := dial(t, config(server.Addr())), raw(t, server.Addr())
			r := register(t, f, star("a", "A1"))
			away(t, client)
			select {
			case <-r.Lost():
			case <-time.After(10 * time.Second):
				t.Fatal("not noticed")
			}
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if stand := fleetRows(t, client); (len(stand) == 1) != (name == "another's") {
				t.Errorf("rows: %v", stand)
			}
		})
	}
}
