package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/events"
	"nova.internal/libs/runtime"
)

const (
	sweepEvery = time.Second
	staleAfter = 10 * time.Second // a registry snapshot older than this is not the fleet
	flushWait  = 2 * time.Second  // for the last events at the end
)

// errStopping ends calls when the gateway does.
var errStopping = &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEPARTING, Why: "this gateway is stopping; go on at another"}

// Gateway is one gateway process.
type Gateway struct {
	novav1.UnimplementedStreamsServer
	novav1.UnimplementedAdminServer

	cfg     Config
	log     *slog.Logger
	fleet   *coord.Fleet
	conns   *conns
	memory  *memory
	stores  *stores
	report  events.Reporter
	events  *events.Publisher // behind report; nil without NATS
	metrics metrics
	handles atomic.Int64

	ctx    context.Context // ends when the gateway begins to stop
	cancel context.CancelFunc
	work   sync.WaitGroup // the forwarders of producer handles, and repair
}

// Addrs is where a running gateway listens.
type Addrs struct{ GRPC, HTTP string }

// Run serves until ctx ends. ready is called once it does.
//
//	producer ─▶ Produce ─▶ route ─▶ a star's Produce
//	reader ───▶ Read ────▶ segment rows + copies, then the leader's Read
//	operator ─▶ Admin, HTTP ─▶ registry snapshot, a star's Handoff, events
func Run(ctx context.Context, cfg Config, env runtime.Env, ready func(Addrs)) error {
	if err := cfg.Validate(); err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	g, err := open(ctx, cfg, env)
	if err != nil {
		return err
	}
	defer g.close()
	return g.serve(ctx, env, ready)
}

// open connects what a gateway stands on.
func open(ctx context.Context, cfg Config, env runtime.Env) (*Gateway, error) {
	cfg.Oxia.Log, cfg.Oxia.Identity = env.Log, "gateway"
	g := &Gateway{cfg: cfg, log: env.Log, conns: &conns{}, report: events.Discard}
	var err error
	if g.memory, err = newMemory(cfg.Holders); err != nil {
		return nil, err
	}
	if g.metrics, err = newMetrics(env.Metrics, &g.handles); err != nil {
		return nil, err
	}
	if g.fleet, err = coord.Dial(ctx, cfg.Oxia); err != nil {
		return nil, runtime.ExitError(runtime.ExitUsage, err)
	}
	if g.stores, err = newStores(cfg, g.fleet.Rows(), env); err != nil {
		return nil, errors.Join(err, g.fleet.Close())
	}
	if cfg.NATS != "" {
		if g.events, err = events.New(ctx, cfg.NATS, events.Config{Log: env.Log, Metrics: env.Metrics}); err != nil {
			return nil, errors.Join(err, g.fleet.Close())
		}
		g.report = g.events
	}
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.work.Go(func() { g.stores.repair(g.ctx) })
	return g, nil
}

// close lets go of everything, within bounds of its own.
func (g *Gateway) close() {
	g.cancel()
	g.conns.close()
	g.work.Wait()
	if g.events != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), flushWait)
		defer cancel()
		if err := g.events.Close(ctx); err != nil {
			g.log.Warn("the last events", "err", err)
		}
	}
	if err := g.fleet.Close(); err != nil {
		g.log.Warn("oxia clients did not close cleanly", "err", err)
	}
}

// serve runs the servers until ctx ends.
func (g *Gateway) serve(ctx context.Context, env runtime.Env, ready func(Addrs)) error {
	lis, err := runtime.Listen(g.cfg.Listen)
	if err != nil {
		return err
	}
	server := runtime.NewServer(env)
	novav1.RegisterStreamsServer(server, g)
	novav1.RegisterAdminServer(server, g)
	addrs := Addrs{GRPC: lis.Addr().String()}

	var group runtime.Group
	group.Add(func() error {
		g.sweep(ctx, env.Health)
		env.Health.Set("serving", errors.New("stopping"))
		g.cancel() // handles and followed reads end now, so that their clients go elsewhere
		return nil
	}, func(error) { g.cancel() })
	group.Add(runtime.GRPC(lis, server))
	if g.cfg.HTTP != "" {
		web, err := runtime.Listen(g.cfg.HTTP)
		if err != nil {
			return errors.Join(err, lis.Close())
		}
		addrs.HTTP = web.Addr().String()
		group.Add(runtime.HTTP(web, g.web(env)))
	}
	env.Health.Set("serving", nil)
	ready(addrs)
	return group.Run()
}

// sweep drops connections to stars that left and says whether the fleet can be seen, until the gateway
// stops.
func (g *Gateway) sweep(ctx context.Context, health *runtime.Health) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			snap := g.fleet.Registry().Snapshot()
			wanted := map[string]bool{g.cfg.Placer: true}
			for _, m := range snap.Stars {
				wanted[m.Star.GetAddress()] = true
			}
			g.conns.sweep(wanted, now)
			var stale error
			if age := now.Sub(snap.At); age > staleAfter {
				stale = fmt.Errorf("the registry was read last %v ago", age.Round(time.Second))
			}
			health.Set("registry", stale)
		case <-ctx.Done():
			return
		case <-g.ctx.Done():
			return
		}
	}
}

// life is a call's context that also ends when the gateway stops.
func (g *Gateway) life(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(call)
	unhook := context.AfterFunc(g.ctx, func() { cancel(errStopping) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// ended is the answer to a call: what happened, or why its context ended, which says more.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
