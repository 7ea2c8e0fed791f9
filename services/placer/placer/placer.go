// Package placer answers who leads a stream, or who would: the lease's holder where one stands, and the
// designate by libs/placement over the registry's snapshot, bound by a handoff's successor record.
//
// It holds no state of its own. A star that gets no answer decides with the same function on its own
// snapshot, so a fleet goes on without a placer; with one, all stars place by the same numbers.
package placer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/placement"
	"nova.internal/libs/runtime"
)

// Config is what a placer is started with.
type Config struct {
	Listen string
	HTTP   string
	Oxia   coord.Config
}

// DefaultConfig is a placer short of addresses.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:0", Oxia: coord.DefaultConfig()}
}

// Flags registers the configuration's flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Listen, "listen", c.Listen, "gRPC address, HOST:PORT; port 0 picks one")
	f.StringVar(&c.HTTP, "http", c.HTTP, "address of health and metrics, HOST:PORT; empty for none")
	c.Oxia.Flags(f)
}

// Validate says what is wrong with c in one line.
func (c Config) Validate() error { return c.Oxia.Validate() }

// Addrs is where a running placer listens.
type Addrs struct{ GRPC, HTTP string }

// staleAfter is when a snapshot that could not be refreshed is no ground to decide on.
const staleAfter = 3 * time.Second

// Run serves until ctx ends. ready is called once it serves.
func Run(ctx context.Context, cfg Config, env runtime.Env, ready func(Addrs)) error {
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
	lis, err := runtime.Listen(cfg.Listen)
	if err != nil {
		return err
	}
	s := &Server{registry: fleet.Registry(), leases: fleet.Leases(), heads: heads{fleet.Rows()}, now: time.Now}
	server := runtime.NewServer(env)
	novav1.RegisterPlacerServer(server, s)
	addrs := Addrs{GRPC: lis.Addr().String()}

	var g runtime.Group
	g.Add(runtime.Until(ctx))
	g.Add(runtime.GRPC(lis, server))
	watch, stop := context.WithCancel(ctx)
	g.Add(func() error { return s.watch(watch, env.Health) }, func(error) { stop() })
	if cfg.HTTP != "" {
		web, err := runtime.Listen(cfg.HTTP)
		if err != nil {
			return errors.Join(err, lis.Close())
		}
		addrs.HTTP = web.Addr().String()
		g.Add(runtime.HTTP(web, env.Health.Handler(env.Gatherer)))
	}
	env.Health.Set("registry", s.stale())
	ready(addrs)
	return g.Run()
}

// What the server needs of the fleet.
type (
	registry interface {
		Snapshot() *coord.Snapshot
		Within(ctx context.Context, age time.Duration) (*coord.Snapshot, error)
	}
	leases interface {
		Holder(ctx context.Context, id string) (*novav1.LeaseRow, error)
	}
	successors interface {
		Successor(ctx context.Context, id string) (*novav1.Successor, error)
	}
)

type heads struct{ rows *coord.Rows }

// Successor reads whom a handoff has named in the stream's head, nil for nobody.
func (h heads) Successor(ctx context.Context, id string) (*novav1.Successor, error) {
	head, err := epoch.NewGuard(h.rows, id).Read(ctx)
	return head.GetSuccessor(), err
}

// Server answers Resolve (novav1.PlacerServer).
type Server struct {
	novav1.UnimplementedPlacerServer
	registry registry
	leases   leases
	heads    successors
	now      func() time.Time
}

// Resolve reads the lease now and places by the snapshot. The head is read only where no lease stands:
// that is when a handoff's successor record matters.
func (s *Server) Resolve(ctx context.Context, r *novav1.ResolveRequest) (*novav1.ResolveResponse, error) {
	if r.GetId() == "" {
		return nil, &api.FieldError{Field: "id", Why: "a stream's id is needed"}
	}
	if err := s.stale(); err != nil {
		return nil, &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEGRADED, Why: err.Error(), RetryAfter: time.Second}
	}
	var holder string
	if !r.GetSkipHolder() {
		lease, err := s.leases.Holder(ctx, r.GetId())
		if err != nil && !errors.Is(err, coord.ErrNotFound) {
			return nil, fmt.Errorf("resolve %s: %w", r.GetId(), err)
		}
		holder = lease.GetStar()
	}
	var successor *novav1.Successor
	if holder == "" {
		var err error
		if successor, err = s.heads.Successor(ctx, r.GetId()); err != nil {
			return nil, fmt.Errorf("resolve %s: %w", r.GetId(), err)
		}
	}
	answer, err := placement.Decide(fleetOf(s.registry.Snapshot()), r.GetId(), holder, successor, s.now(), r.GetWithout()...)
	if errors.Is(err, placement.ErrAtCapacity) {
		snap, rerr := s.registry.Within(ctx, lookTwice)
		if rerr != nil {
			return nil, fmt.Errorf("resolve %s: %w", r.GetId(), rerr)
		}
		return placement.Decide(fleetOf(snap), r.GetId(), holder, successor, s.now(), r.GetWithout()...)
	}
	return answer, err
}

// lookTwice is how old a snapshot may be that says there is no star to lead.
const lookTwice = 10 * time.Millisecond

// stale says why the snapshot is no ground to decide on, or nil.
func (s *Server) stale() error {
	if age := s.now().Sub(s.registry.Snapshot().At); age > staleAfter {
		return fmt.Errorf("the registry was last read %v ago: oxia does not answer", age.Round(time.Second))
	}
	return nil
}

func (s *Server) watch(ctx context.Context, health *runtime.Health) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			health.Set("registry", s.stale())
		case <-ctx.Done():
			return nil
		}
	}
}

func fleetOf(snap *coord.Snapshot) placement.Snapshot {
	stars, stats := snap.Rows()
	return placement.FromRows(snap.Revision, stars, stats)
}
