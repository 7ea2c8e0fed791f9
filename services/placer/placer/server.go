package placer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/placement"
)

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

// Server answers Resolve (novav1.PlacerServer). It is safe for concurrent use.
type Server struct {
	novav1.UnimplementedPlacerServer
	view    *view
	leases  leases
	heads   successors
	now     func() time.Time
	metrics *metrics
}

func newServer(r registry, l leases, h successors, m prometheus.Registerer) *Server {
	s := &Server{view: &view{registry: r}, leases: l, heads: h, now: time.Now}
	s.metrics = newMetrics(m, s)
	return s
}

// Resolve reads the lease now and places by the snapshot. With skip_holder it answers where the stream
// would go if nobody led it. Stars in `without` are neither named as holder nor designated.
func (s *Server) Resolve(ctx context.Context, r *novav1.ResolveRequest) (*novav1.ResolveResponse, error) {
	answer, err := s.resolve(ctx, r)
	s.metrics.count(answer, err)
	return answer, err
}

func (s *Server) resolve(ctx context.Context, r *novav1.ResolveRequest) (*novav1.ResolveResponse, error) {
	if _, err := ulid.ParseStrict(r.GetId()); err != nil { // it becomes part of a key
		return nil, &api.FieldError{Field: "id", Why: fmt.Sprintf("a stream's id is a ULID; %.64q is none", r.GetId())}
	}
	if err := s.stale(); err != nil {
		return nil, unavailable("place "+r.GetId(), err)
	}
	fleet := s.view.now()
	holder, err := s.holder(ctx, r)
	if err != nil {
		return nil, err
	}
	if _, known := fleet.Star(holder); holder != "" && !known {
		if fleet, err = s.view.again(ctx); err != nil {
			return nil, fleetAway(ctx, "look for star "+holder, err)
		}
		if _, known = fleet.Star(holder); !known { // its session has ended, and the lease is about to go
			holder = ""
		}
	}
	successor, err := s.successor(ctx, r, holder)
	if err != nil {
		return nil, err
	}
	answer, err := placement.Decide(fleet, r.GetId(), holder, successor, s.now(), r.GetWithout()...)
	if !errors.Is(err, placement.ErrAtCapacity) {
		return answer, err
	}
	if fleet, err = s.view.again(ctx); err != nil {
		return nil, fleetAway(ctx, "look for a star to lead "+r.GetId(), err)
	}
	return placement.Decide(fleet, r.GetId(), holder, successor, s.now(), r.GetWithout()...)
}

// holder reads whose lease stands, "" for nobody's and where the caller does not ask.
func (s *Server) holder(ctx context.Context, r *novav1.ResolveRequest) (string, error) {
	if r.GetSkipHolder() {
		return "", nil
	}
	lease, err := s.leases.Holder(ctx, r.GetId())
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return "", fleetAway(ctx, "read the lease of "+r.GetId(), err)
	}
	return lease.GetStar(), nil
}

// successor reads whom a handoff has named, which matters where the lease settles nothing: nobody holds
// it, or the caller leaves its star out.
func (s *Server) successor(ctx context.Context, r *novav1.ResolveRequest, holder string) (*novav1.Successor, error) {
	if holder != "" && !slices.Contains(r.GetWithout(), holder) {
		return nil, nil
	}
	named, err := s.heads.Successor(ctx, r.GetId())
	if err != nil {
		return nil, fleetAway(ctx, "read the successor of "+r.GetId(), err)
	}
	return named, nil
}

// staleAfter is when a snapshot that could not be refreshed is no ground to decide on.
const staleAfter = 3 * time.Second

// stale says why the snapshot is no ground to decide on, or nil.
func (s *Server) stale() error {
	if age := s.age(); age > staleAfter {
		return fmt.Errorf("the registry was last read %v ago: oxia does not answer", age.Round(100*time.Millisecond))
	}
	return nil
}

func (s *Server) age() time.Duration { return s.now().Sub(s.view.registry.Snapshot().At) }

// fleetAway is the answer where the metastore gave none: to the caller whose own context ended that, and
// to any other that it should ask again or decide by itself.
func fleetAway(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return unavailable(doing, err)
}

func unavailable(doing string, err error) error {
	return fmt.Errorf("%w: %w", &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEGRADED, Why: doing, RetryAfter: time.Second}, err)
}
