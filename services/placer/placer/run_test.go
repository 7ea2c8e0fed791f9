package placer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/oxiaembed"
	"nova.internal/libs/placement"
	"nova.internal/libs/runtime"
)

// store is one embedded Oxia instance that can be away for a while.
type store struct {
	t   *testing.T
	cfg oxiaembed.Config
	*oxiaembed.Server
}

func newStore(t *testing.T) *store {
	s := &store{t: t, cfg: oxiaembed.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}
	s.start()
	s.cfg.Listen = s.Addr()
	t.Cleanup(s.stop)
	return s
}

func (s *store) start() {
	s.t.Helper()
	var err error
	if s.Server, err = oxiaembed.Start(s.cfg); err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) stop() {
	if s.Server != nil {
		_ = s.Close()
		s.Server = nil
	}
}

// cluster is a metastore, living stars, and a running placer.
type cluster struct {
	t                  *testing.T
	durable, ephemeral *store
	cfg                coord.Config
	client             novav1.PlacerClient
	addrs              Addrs
	web                *http.Client
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, durable: newStore(t), ephemeral: newStore(t), cfg: coord.DefaultConfig()}
	c.cfg.Durable, c.cfg.Ephemeral = c.durable.Addr(), c.ephemeral.Addr()
	c.cfg.SessionTimeout, c.cfg.RequestTimeout = 4*time.Second, time.Second
	return c
}

// fleet connects to the metastore as one star does.
func (c *cluster) fleet() *coord.Fleet {
	c.t.Helper()
	f, err := coord.Dial(c.t.Context(), c.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = f.Close() })
	return f
}

// star registers a star, which lives until the test ends.
func (c *cluster) star(name string) (*coord.Fleet, *coord.Registration) {
	c.t.Helper()
	f := c.fleet()
	reg, err := f.Register(c.t.Context(), &novav1.StarRow{Star: name, Address: name + ":1", Incarnation: name + "-1"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = reg.Close(context.Background()) })
	return f, reg
}

// run starts the placer, which ends with the test.
func (c *cluster) run() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan Addrs, 1), make(chan error, 1)
	cfg := Config{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Oxia: c.cfg}
	go func() {
		ended <- Run(ctx, cfg, runtime.NewEnv("placer", slog.New(slog.DiscardHandler)), func(a Addrs) { ready <- a })
	}()
	c.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("the placer ended with %v", err)
		}
	})
	select {
	case c.addrs = <-ready:
	case err := <-ended:
		ended <- err
		c.t.Fatalf("the placer did not start: %v", err)
	}
	cc, err := grpc.NewClient(c.addrs.GRPC, api.DialOptions()...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.client, c.web = novav1.NewPlacerClient(cc), &http.Client{Transport: &http.Transport{}}
	c.t.Cleanup(func() {
		_ = cc.Close()
		c.web.CloseIdleConnections()
	})
}

func (c *cluster) resolve(r *novav1.ResolveRequest) (*novav1.ResolveResponse, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	r.Id = id
	answer, err := c.client.Resolve(ctx, r)
	return answer, api.FromError(err)
}

// eventually asks until the answer is as wanted.
func (c *cluster) eventually(what string, r *novav1.ResolveRequest, is func(*novav1.ResolveResponse, error) bool) *novav1.ResolveResponse {
	c.t.Helper()
	var answer *novav1.ResolveResponse
	var err error
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if answer, err = c.resolve(r); is(answer, err) {
			return answer
		}
	}
	c.t.Fatalf("%s: the last answer is %v, %v", what, answer, err)
	return nil
}

// readyz is what /readyz answers.
func (c *cluster) readyz() (code int, reasons map[string]string) {
	c.t.Helper()
	r, err := c.web.Get("http://" + c.addrs.HTTP + "/readyz")
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	var body struct{ Reasons map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		c.t.Fatal(err)
	}
	return r.StatusCode, body.Reasons
}

func designates(star string) func(*novav1.ResolveResponse, error) bool {
	return func(r *novav1.ResolveResponse, err error) bool {
		return err == nil && r.GetHolder() == "" && r.GetDesignate() == star && r.GetDesignateAddress() == star+":1"
	}
}

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
