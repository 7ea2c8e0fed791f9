package placer

import (
	"context"
	"errors"
	"testing"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// world is the fleet as the server sees it.
type world struct {
	snap      *coord.Snapshot
	holder    *novav1.LeaseRow
	err       error
	successor *novav1.Successor
	fresher   *coord.Snapshot // what another scan finds
}

func (w *world) Snapshot() *coord.Snapshot { return w.snap }
func (w *world) Within(context.Context, time.Duration) (*coord.Snapshot, error) {
	if w.fresher != nil {
		return w.fresher, nil
	}
	return w.snap, nil
}
func (w *world) Holder(context.Context, string) (*novav1.LeaseRow, error) {
	if w.holder == nil && w.err == nil {
		return nil, coord.ErrNotFound
	}
	return w.holder, w.err
}
func (w *world) Successor(context.Context, string) (*novav1.Successor, error) {
	return w.successor, nil
}

func TestResolve(t *testing.T) {
	now := time.UnixMilli(5_000_000)
	fleet := []coord.Member{{Star: &novav1.StarRow{Star: "a", Address: "a:1"}}, {Star: &novav1.StarRow{Star: "b", Address: "b:1"}}}
	fresh := &coord.Snapshot{Revision: 3, At: now, Stars: fleet}
	server := func(w *world) *Server {
		return &Server{registry: w, leases: w, heads: w, now: func() time.Time { return now }}
	}
	plain, err := server(&world{snap: fresh}).Resolve(t.Context(), &novav1.ResolveRequest{Id: "s"})
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"a": "b", "b": "a"}[plain.GetDesignate()]
	tests := map[string]struct {
		world   world
		request *novav1.ResolveRequest
		holder  string
		want    string
	}{
		"a vacant stream goes to its designate":      {world: world{snap: fresh}, want: plain.GetDesignate()},
		"a led one is answered with its holder":      {world: world{snap: fresh, holder: &novav1.LeaseRow{Star: other}}, holder: other, want: plain.GetDesignate()},
		"a handoff's successor binds a vacant one":   {world: world{snap: fresh, successor: &novav1.Successor{Star: other, UntilUnixMs: 6_000_000}}, want: other},
		"the asking star can leave itself out":       {world: world{snap: fresh}, request: &novav1.ResolveRequest{Without: []string{plain.GetDesignate()}}, want: other},
		"where it would go without its holder":       {world: world{snap: fresh, holder: &novav1.LeaseRow{Star: other}}, request: &novav1.ResolveRequest{SkipHolder: true}, want: plain.GetDesignate()},
		"a holder that has left the fleet is no one": {world: world{snap: fresh, holder: &novav1.LeaseRow{Star: "gone"}}, want: plain.GetDesignate()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			request := &novav1.ResolveRequest{}
			if tc.request != nil {
				request = tc.request
			}
			request.Id = "s"
			r, err := server(&tc.world).Resolve(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if r.GetHolder() != tc.holder || r.GetDesignate() != tc.want || r.GetDesignateAddress() != tc.want+":1" || r.GetRevision() != 3 {
				t.Errorf("Resolve = %v, want holder %q, designate %q", r, tc.holder, tc.want)
			}
		})
	}
	t.Run("a stale snapshot is no ground to decide on", func(t *testing.T) {
		stale := &coord.Snapshot{At: now.Add(-staleAfter - 1), Stars: fleet}
		var away *api.UnavailableError
		if _, err := server(&world{snap: stale}).Resolve(t.Context(), &novav1.ResolveRequest{Id: "s"}); !errors.As(err, &away) {
			t.Errorf("Resolve = %v, want unavailable", err)
		}
	})
	t.Run("a lease that cannot be read is an error, not a vacancy", func(t *testing.T) {
		w := &world{snap: fresh, err: coord.ErrUnknown}
		if r, err := server(w).Resolve(t.Context(), &novav1.ResolveRequest{Id: "s"}); !errors.Is(err, coord.ErrUnknown) {
			t.Errorf("Resolve = %v, %v", r, err)
		}
	})
	t.Run("a star that has just joined is found before the fleet is called full", func(t *testing.T) {
		r, err := server(&world{snap: &coord.Snapshot{At: now}, fresher: fresh}).Resolve(t.Context(), &novav1.ResolveRequest{Id: "s"})
		if err != nil || r.GetDesignate() != plain.GetDesignate() {
			t.Errorf("Resolve = %v, %v", r, err)
		}
	})
	t.Run("an empty fleet is at capacity", func(t *testing.T) {
		var bound *api.BoundError
		if _, err := server(&world{snap: &coord.Snapshot{At: now}}).Resolve(t.Context(), &novav1.ResolveRequest{Id: "s"}); !errors.As(err, &bound) {
			t.Errorf("Resolve = %v, want at capacity", err)
		}
	})
}
