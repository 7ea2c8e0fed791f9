package placer

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/placement"
	"nova.internal/libs/runtime"
)

func TestOverARealMetastore(t *testing.T) {
	c := newCluster(t)
	fleets, regs := map[string]*coord.Fleet{}, map[string]*coord.Registration{}
	for _, star := range []string{"a", "b"} {
		fleets[star], regs[star] = c.star(star)
	}
	c.run()
	ctx := t.Context()
	if code, reasons := c.readyz(); code != http.StatusOK {
		t.Errorf("/readyz is %d: %v", code, reasons)
	}

	want, err := placement.Designate(placement.FromRows(0, []*novav1.StarRow{{Star: "a"}, {Star: "b"}}, nil), id)
	if err != nil {
		t.Fatal(err)
	}
	first, second := want.Star.Name, want.RunnerUp().Star.Name
	r := c.eventually("a vacant stream without a head", &novav1.ResolveRequest{}, designates(first))
	if r.GetRunnerUp() != second || len(r.GetCandidates()) != 2 || r.GetCandidates()[0].GetScore() != placement.Score(first, id) {
		t.Errorf("Resolve = %v, which does not say what decided", r)
	}

	// A led stream is its holder's, wherever placement would have it; the answer is no older than the lease.
	lease, err := fleets[second].Leases().Acquire(ctx, id, false)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.resolve(&novav1.ResolveRequest{}); err != nil || r.GetHolder() != second || r.GetHolderAddress() != second+":1" || r.GetDesignate() != first {
		t.Errorf("a led stream: %v, %v", r, err)
	}
	if r, err := c.resolve(&novav1.ResolveRequest{Without: []string{second}}); err != nil || r.GetHolder() != "" || r.GetDesignate() != first {
		t.Errorf("its holder asks without itself: %v, %v", r, err)
	}
	if err := fleets[second].Leases().Release(ctx, lease); err != nil {
		t.Fatal(err)
	}

	// A handoff's successor binds the vacant stream until its time runs out.
	head := &novav1.HeadRow{Id: id, Epoch: 1, Successor: &novav1.Successor{Star: second, Handoff: "h", UntilUnixMs: time.Now().Add(time.Minute).UnixMilli()}}
	version, err := fleets[first].Rows().Put(ctx, coord.HeadKey(id), head, coord.Absent)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.resolve(&novav1.ResolveRequest{}); err != nil || r.GetDesignate() != second || !r.GetSuccessor() || r.GetRunnerUp() != first {
		t.Errorf("with a successor: %v, %v", r, err)
	}
	head.Successor.UntilUnixMs = time.Now().Add(-time.Millisecond).UnixMilli()
	if _, err := fleets[first].Rows().Put(ctx, coord.HeadKey(id), head, version); err != nil {
		t.Fatal(err)
	}
	if r, err := c.resolve(&novav1.ResolveRequest{}); err != nil || r.GetDesignate() != first || r.GetSuccessor() {
		t.Errorf("with a successor whose time has run out: %v, %v", r, err)
	}

	// Load outweighs the hash once it is published; a saturated and a draining star take nothing.
	if err := regs[first].Stats(ctx, &novav1.StatsRow{Star: first, AppendBytesPerSecond: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	c.eventually("the first carries 64 MiB/s more", &novav1.ResolveRequest{}, designates(second))
	if err := regs[second].Update(ctx, func(row *novav1.StarRow) { row.Saturated = true }); err != nil {
		t.Fatal(err)
	}
	c.eventually("the second is saturated", &novav1.ResolveRequest{}, designates(first))
	if err := regs[first].Update(ctx, func(row *novav1.StarRow) { row.Draining = novav1.Draining_DRAINING_SERVING }); err != nil {
		t.Fatal(err)
	}
	c.eventually("and the first drains", &novav1.ResolveRequest{}, func(_ *novav1.ResolveResponse, err error) bool {
		var bound *api.BoundError
		return errors.As(err, &bound) && bound.Name == api.BoundFleetCapacity
	})

	// A star that joins a full fleet leads well before the next scan of every second.
	c.star("new")
	joined := time.Now()
	c.eventually("a star has joined a full fleet", &novav1.ResolveRequest{}, designates("new"))
	if took := time.Since(joined); took > time.Second/2 {
		t.Errorf("the fleet was called full for another %v", took)
	}
}

func TestWithoutItsMetastoreItSaysSoAndComesBack(t *testing.T) {
	c := newCluster(t)
	c.star("a")
	c.run()
	c.eventually("before", &novav1.ResolveRequest{}, designates("a"))

	c.ephemeral.stop()
	c.eventually("the registry cannot be read", &novav1.ResolveRequest{}, func(_ *novav1.ResolveResponse, err error) bool {
		var away *api.UnavailableError
		return errors.As(err, &away) && away.Reason == novav1.Unavailable_REASON_DEGRADED && away.RetryAfter > 0 && strings.Contains(err.Error(), "registry was last read")
	})
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if code, reasons := c.readyz(); code == http.StatusServiceUnavailable && strings.Contains(reasons["registry"], "last read") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("/readyz is %d: %v", code, reasons)
		}
	}

	c.ephemeral.start()
	c.eventually("the registry is back", &novav1.ResolveRequest{}, func(r *novav1.ResolveResponse, err error) bool {
		var bound *api.BoundError // the star's session may have ended meanwhile
		return err == nil || errors.As(err, &bound)
	})
}

func TestRunRefusesABadStart(t *testing.T) {
	taken, err := runtime.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	unused, err := runtime.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := unused.Addr().String()
	_ = unused.Close()
	c := newCluster(t)
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no address of oxia":    {func(cfg *Config) { cfg.Oxia.Durable = "" }, "--oxia"},
		"too short a session":   {func(cfg *Config) { cfg.Oxia.SessionTimeout = time.Second }, "--oxia-session-timeout"},
		"no address to listen":  {func(cfg *Config) { cfg.Listen = "" }, "--listen"},
		"the port is taken":     {func(cfg *Config) { cfg.Listen = taken.Addr().String() }, "another process has it"},
		"the web port is taken": {func(cfg *Config) { cfg.Listen, cfg.HTTP = free, taken.Addr().String() }, "another process has it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Oxia = c.cfg
			tc.change(&cfg)
			err := Run(t.Context(), cfg, runtime.NewEnv("placer", slog.New(slog.DiscardHandler)), func(Addrs) { t.Error("it served") })
			if err == nil || runtime.ExitCode(err) != runtime.ExitUsage || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v (exit %d), want %q and exit 2", err, runtime.ExitCode(err), tc.want)
			}
			if cfg.Listen == free {
				lis, err := runtime.Listen(free)
				if err != nil {
					t.Fatalf("it kept its port: %v", err)
				}
				_ = lis.Close()
			}
		})
	}
}
