package flightlog_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

func TestHealthTellsForEachCopyWhetherItTakesPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := flightlogtest.Mem(t, 0, 5)
		for i, c := range copies[:4] {
			id, err := flightlog.Format(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			set.List[i] = flightlog.Admit(c, id)
		}
		why := errors.New("no such host")
		set.List[4] = flightlog.Away("mem://away", why)
		_, blanks := flightlogtest.Mem(t, 0, 1)
		copies[1].Replace(blanks[0])
		copies[2].Inject(flightlogtest.Down())
		copies[3].Inject(flightlogtest.Hang(make(chan struct{})))
		health := set.Health(t.Context())
		for i, want := range []error{nil, flightlog.ErrNotAdmitted, flightlogtest.ErrInjected, nil, why} {
			if i == 3 {
				if health[i].Err == nil {
					t.Error("a copy that hangs is well")
				}
				continue
			}
			if !errors.Is(health[i].Err, want) || health[i].Copy != set.List[i].Name() {
				t.Errorf("copy %d: %s is %v, want %v", i, health[i].Copy, health[i].Err, want)
			}
		}
	})
}

func TestACopyThatCouldNotBeOpenedTakesNoPart(t *testing.T) {
	set, _ := express(t)
	why := errors.New("no such host")
	set.List[0] = flightlog.Away("file:///srv/a", why)
	refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 10)}, 1)
	if diff := cmp.Diff(flightlog.Votes{Flight: 2, Away: 1}, flightlog.NewGraveyard(set, testChain, "f").Vote(t.Context(), 0)); diff != "" {
		t.Errorf("votes (-want +got):\n%s", diff)
	}
	r := flightlog.NewReader(set, nil)
	for range 3 {
		if _, err := r.Batch(t.Context(), testChain, refOf(refs[0])); err != nil {
			t.Error(err)
		}
	}
	for _, err := range set.List[0].List(t.Context(), "flights", "") {
		if !errors.Is(err, why) {
			t.Errorf("List = %v, want the reason", err)
		}
	}
}

// meter counts what it is told.
type meter struct {
	mu            sync.Mutex
	puts, refused int
	failed        int
	commits       int
	batches       int
	took          time.Duration
}

func (m *meter) Put(_ string, _ int, _ time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.puts++
	case errors.Is(err, flightlog.ErrExists):
		m.refused++
	default:
		m.failed++
	}
}

func (m *meter) Commit(batches, _ int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits, m.batches, m.took = m.commits+1, m.batches+batches, m.took+took
}

func TestTheMeterHearsOfEveryPutAndCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for _, c := range copies {
			c.Inject(flightlogtest.Slow(10*time.Millisecond, flightlogtest.Put))
		}
		copies[2].Inject(func(call flightlogtest.Call) flightlogtest.Fault {
			if call.Op == flightlogtest.Put && call.N == 1 {
				return flightlogtest.Fault{Lose: flightlogtest.ErrInjected}
			}
			return flightlogtest.Fault{}
		})
		m := &meter{}
		w, _ := newWriter(t, set, func(c *flightlog.WriterConfig) { c.Meter = m })
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.puts != 2 || m.failed != 1 || m.refused != 1 || m.commits != 1 || m.batches != 1 || m.took != 10*time.Millisecond {
			t.Errorf("meter %+v; want 2 puts, 1 failed, 1 refused, 1 commit of 1 batch that took 10ms", m)
		}
	})
}
