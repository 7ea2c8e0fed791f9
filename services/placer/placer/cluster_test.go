package placer

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/oxiaembed"
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
