package placer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// id is the stream of these tests.
const id = "01J9ZZZZZZZZZZZZZZZZZZZZZZ"

// world is the fleet as the server sees it.
type world struct {
	snap      *coord.Snapshot
	fresher   *coord.Snapshot // what another scan finds
	unseen    error           // why another scan finds nothing
	holder    *novav1.LeaseRow
	err       error // of reading the lease
	successor *novav1.Successor
	headErr   error

	mu        sync.Mutex
	scans     int
	headReads int
	scanning  time.Duration
}

func (w *world) Snapshot() *coord.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap
}

func (w *world) Within(context.Context, time.Duration) (*coord.Snapshot, error) {
	time.Sleep(w.scanning)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scans++
	if w.fresher != nil {
		w.snap = w.fresher
	}
	return w.snap, w.unseen
}

func (w *world) Holder(context.Context, string) (*novav1.LeaseRow, error) {
	if w.holder == nil && w.err == nil {
		return nil, coord.ErrNotFound
	}
	return w.holder, w.err
}

func (w *world) Successor(context.Context, string) (*novav1.Successor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.headReads++
	return w.successor, w.headErr
}

// server is a placer in w at the moment now.
func (w *world) server(now time.Time) *Server {
	s := newServer(w, w, w, prometheus.NewRegistry())
	s.now = func() time.Time { return now }
	return s
}

func lease(star string) *novav1.LeaseRow { return &novav1.LeaseRow{Star: star} }

func members(stars ...string) []coord.Member {
	var all []coord.Member
	for _, star := range stars {
		all = append(all, coord.Member{Star: &novav1.StarRow{Star: star, Address: star + ":1"}})
	}
	return all
}

func TestResolve(t *testing.T) {
	now := time.UnixMilli(5_000_000)
	fresh := &coord.Snapshot{Revision: 3, At: now, Stars: members("a", "b")}
	plain, err := (&world{snap: fresh}).server(now).Resolve(t.Context(), &novav1.ResolveRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	first := plain.GetDesignate()
	other := map[string]string{"a": "b", "b": "a"}[first]
	handoff := &novav1.Successor{Star: other, UntilUnixMs: 6_000_000}
	tests := map[string]struct {
		world     *world
		request   *novav1.ResolveRequest
		holder    string
		want      string
		headReads int
		scans     int
	}{
		"a vacant stream goes to its designate":        {world: &world{snap: fresh}, want: first, headReads: 1},
		"a led one is answered with its holder":        {world: &world{snap: fresh, holder: lease(other)}, holder: other, want: first},
		"a handoff's successor binds a vacant one":     {world: &world{snap: fresh, successor: handoff}, want: other, headReads: 1},
		"it is not asked for where somebody leads":     {world: &world{snap: fresh, holder: lease(first), successor: handoff}, holder: first, want: first},
		"the asking star can leave itself out":         {world: &world{snap: fresh}, request: &novav1.ResolveRequest{Without: []string{first}}, want: other, headReads: 1},
		"a departing holder's successor binds":         {world: &world{snap: fresh, holder: lease("c"), successor: handoff, fresher: &coord.Snapshot{Revision: 3, At: now, Stars: members("a", "b", "c")}}, request: &novav1.ResolveRequest{Without: []string{"c"}}, want: other, headReads: 1, scans: 1},
		"where it would go without its holder":         {world: &world{snap: fresh, holder: lease(other)}, request: &novav1.ResolveRequest{SkipHolder: true}, want: first, headReads: 1},
		"a holder that has just joined is found":       {world: &world{snap: &coord.Snapshot{Revision: 2, At: now, Stars: members(first)}, fresher: fresh, holder: lease(other)}, holder: other, want: first, scans: 1},
		"a holder that has left is no one":             {world: &world{snap: fresh, holder: lease("gone")}, want: first, headReads: 1, scans: 1},
		"and a successor binds after it":               {world: &world{snap: fresh, holder: lease("gone"), successor: handoff}, want: other, headReads: 1, scans: 1},
		"a fleet is looked at twice before it is full": {world: &world{snap: &coord.Snapshot{At: now}, fresher: fresh}, want: first, headReads: 1, scans: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			request := &novav1.ResolveRequest{}
			if tc.request != nil {
				request = tc.request
			}
			request.Id = id
			r, err := tc.world.server(now).Resolve(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if r.GetHolder() != tc.holder || r.GetDesignate() != tc.want || r.GetDesignateAddress() != tc.want+":1" || r.GetRevision() != 3 {
				t.Errorf("Resolve = %v, want holder %q, designate %q", r, tc.holder, tc.want)
			}
			if tc.world.headReads != tc.headReads || tc.world.scans != tc.scans {
				t.Errorf("it read %d heads and scanned %d times, want %d and %d", tc.world.headReads, tc.world.scans, tc.headReads, tc.scans)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	now := time.UnixMilli(5_000_000)
	fleet := members("a", "b")
	fresh := &coord.Snapshot{At: now, Stars: fleet}
	away := fmt.Errorf("read: %w", coord.ErrUnknown)
	isUnavailable := func(err error) bool {
		var e *api.UnavailableError
		return errors.As(err, &e) && e.Reason == novav1.Unavailable_REASON_DEGRADED && e.RetryAfter > 0
	}
	isFull := func(err error) bool {
		var e *api.BoundError
		return errors.As(err, &e) && e.Name == api.BoundFleetCapacity && e.RetryAfter > 0
	}
	isField := func(err error) bool {
		var e *api.FieldError
		return errors.As(err, &e) && e.Field == "id"
	}
	tests := map[string]struct {
		world *world
		id    string
		is    func(error) bool
	}{
		"a snapshot above 3 s old is no ground to decide on": {world: &world{snap: &coord.Snapshot{At: now.Add(-staleAfter - 1), Stars: fleet}}, is: isUnavailable},
		"nor is one that was never read":                     {world: &world{snap: &coord.Snapshot{Stars: fleet}}, is: isUnavailable},
		"a lease that cannot be read is no vacancy":          {world: &world{snap: fresh, err: away}, is: isUnavailable},
		"a head that cannot be read names no successor":      {world: &world{snap: fresh, headErr: away}, is: isUnavailable},
		"an empty fleet is at capacity":                      {world: &world{snap: &coord.Snapshot{At: now}}, is: isFull},
		"unless that could not be seen":                      {world: &world{snap: &coord.Snapshot{At: now}, unseen: away}, is: isUnavailable},
		"no id":                                              {world: &world{snap: fresh}, id: "-", is: isField},
		"an id that is another key":                          {world: &world{snap: fresh}, id: "../../fleet/leases/x", is: isField},
		"an id that is nearly one":                           {world: &world{snap: fresh}, id: id[:25] + "U", is: isField},
		"a lease of a star that could not be looked for":     {world: &world{snap: fresh, holder: lease("c"), unseen: away}, is: isUnavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			request := &novav1.ResolveRequest{Id: tc.id}
			switch tc.id {
			case "":
				request.Id = id
			case "-":
				request.Id = ""
			}
			if r, err := tc.world.server(now).Resolve(t.Context(), request); err == nil || !tc.is(err) {
				t.Errorf("Resolve = %v, %v", r, err)
			}
		})
	}
	t.Run("a snapshot of 3 s is one", func(t *testing.T) {
		w := &world{snap: &coord.Snapshot{At: now.Add(-staleAfter), Stars: fleet}}
		if _, err := w.server(now).Resolve(t.Context(), &novav1.ResolveRequest{Id: id}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a caller that leaves is told so", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (&world{snap: fresh, err: away}).server(now).Resolve(ctx, &novav1.ResolveRequest{Id: id}); !errors.Is(err, context.Canceled) {
			t.Errorf("Resolve = %v", err)
		}
	})
}

func TestManyOpensOnAFullFleetShareAScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{snap: &coord.Snapshot{At: time.Now()}, scanning: time.Millisecond}
		s := w.server(time.Now())
		var opens sync.WaitGroup
		for range 100 {
			opens.Go(func() {
				if _, err := s.Resolve(t.Context(), &novav1.ResolveRequest{Id: id, SkipHolder: true}); err == nil {
					t.Error("an empty fleet placed a stream")
				}
			})
		}
		opens.Wait()
		if w.scans != 1 {
			t.Errorf("%d scans for a hundred opens at once", w.scans)
		}
	})
}

func TestAnswersAreCountedByOutcome(t *testing.T) {
	now := time.Now()
	loads := func(a, b float64) *coord.Snapshot {
		all := members("a", "b")
		all[0].Stats, all[1].Stats = &novav1.StatsRow{Star: "a", AppendBytesPerSecond: a}, &novav1.StatsRow{Star: "b", AppendBytesPerSecond: b}
		return &coord.Snapshot{At: now, Stars: all}
	}
	even := loads(0, 0)
	first, err := (&world{snap: even}).server(now).Resolve(t.Context(), &novav1.ResolveRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	busy := loads(9<<20, 0)
	if first.GetDesignate() == "b" {
		busy = loads(0, 9<<20)
	}
	tests := map[string]*world{
		"hash":        {snap: even},
		"load":        {snap: busy},
		"holder":      {snap: even, holder: lease("a")},
		"successor":   {snap: even, successor: &novav1.Successor{Star: "b", UntilUnixMs: now.Add(time.Hour).UnixMilli()}},
		"full":        {snap: &coord.Snapshot{At: now}},
		"unavailable": {snap: &coord.Snapshot{}},
	}
	for want, w := range tests {
		t.Run(want, func(t *testing.T) {
			r := prometheus.NewRegistry()
			s := newServer(w, w, w, r)
			_, _ = s.Resolve(t.Context(), &novav1.ResolveRequest{Id: id})
			_, _ = s.Resolve(t.Context(), &novav1.ResolveRequest{Id: "no id"})
			help := "# HELP nova_placer_resolved_total Answers by outcome: holder (led), hash, load (the runner-up carries less), successor (a handoff's), full (at capacity), refused, unavailable.\n# TYPE nova_placer_resolved_total counter\n"
			both := []string{`nova_placer_resolved_total{outcome="` + want + `"} 1`, `nova_placer_resolved_total{outcome="refused"} 1`}
			if err := testutil.GatherAndCompare(r, strings.NewReader(help+strings.Join(both, "\n")+"\n"), "nova_placer_resolved_total"); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkResolve is one answer in a fleet of 1,000 stars, short of what the metastore takes.
func BenchmarkResolve(b *testing.B) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("star-%d", i))
	}
	w := &world{snap: &coord.Snapshot{At: time.Now(), Stars: members(names...)}}
	s := w.server(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Resolve(b.Context(), &novav1.ResolveRequest{Id: id}); err != nil {
			b.Fatal(err)
		}
	}
}
