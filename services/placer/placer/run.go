package placer

import (
	"context"
	"errors"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/runtime"
)

// Addrs is where a running placer listens.
type Addrs struct{ GRPC, HTTP string }

// Run serves until ctx ends. ready is called once it serves.
func Run(ctx context.Context, cfg Config, env runtime.Env, ready func(Addrs)) error {
	if err := cfg.Validate(); err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	cfg.Oxia.Log = env.Log
	fleet, err := coord.Dial(ctx, cfg.Oxia)
	if err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	defer func() {
		if err := fleet.Close(); err != nil {
			env.Log.Warn("oxia clients did not close cleanly", "err", err)
		}
	}()
	return serve(ctx, cfg, env, newServer(fleet.Registry(), fleet.Leases(), heads{fleet.Rows()}, env.Metrics), ready)
}

func serve(ctx context.Context, cfg Config, env runtime.Env, s *Server, ready func(Addrs)) error {
	lis, err := runtime.Listen(cfg.Listen)
	if err != nil {
		return err
	}
	server := runtime.NewServer(env)
	novav1.RegisterPlacerServer(server, s)
	addrs := Addrs{GRPC: lis.Addr().String()}

	watch, stop := context.WithCancel(ctx)
	defer stop()
	var g runtime.Group
	g.Add(func() error { return s.watch(watch, env.Health) }, func(error) { stop() })
	g.Add(runtime.GRPC(lis, server))
	if cfg.HTTP != "" {
		web, err := runtime.Listen(cfg.HTTP)
		if err != nil {
			return errors.Join(err, lis.Close())
		}
		addrs.HTTP = web.Addr().String()
		g.Add(runtime.HTTP(web, env.Health.Handler(env.Gatherer)))
	}
	env.Health.Set("serving", nil)
	env.Health.Set("registry", s.stale())
	ready(addrs)
	return g.Run()
}

// watch keeps the readiness at what the snapshot's age says, until ctx ends.
func (s *Server) watch(ctx context.Context, health *runtime.Health) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			health.Set("registry", s.stale())
		case <-ctx.Done():
			health.Set("serving", errors.New("stopping"))
			return nil
		}
	}
}

// heads reads successor records.
type heads struct{ rows *coord.Rows }

// Successor reads whom a handoff has named in the stream's head, nil for nobody. A stream without a head
// has never been led.
func (h heads) Successor(ctx context.Context, id string) (*novav1.Successor, error) {
	head, err := epoch.NewGuard(h.rows, id).Read(ctx)
	return head.GetSuccessor(), err
}
