package star

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// TestS17AStarThatHeartbeatsButCannotReachItsStorage resigns: what is undecided is answered "unknown", the
// fleet is told why it leads nothing, its streams are opened elsewhere without loss or repeat, and it leads
// again when its storage answers.
func TestS17AStarThatHeartbeatsButCannotReachItsStorage(t *testing.T) {
	t.Parallel()
	real := t.TempDir()
	// Each star reaches the one store by a way of its own, which can be cut.
	way := func(star string) string { return filepath.Join(real, "..", filepath.Base(real)+"-"+star) }
	for _, star := range []string{"one", "two"} {
		if err := os.Symlink(real, way(star)); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(way(star))
	}
	f := newFleet(t, func(c *Config) { c.StorageTimeout = 500 * time.Millisecond })
	f.cfg.Standard = []string{"file://" + way("one")}
	one := f.start("one")
	f.create("orders", anyMode, standard)
	p := f.open("one", "orders")
	p.append("a")
	p.append("b")
	f.cfg.Standard = []string{"file://" + way("two")}
	f.start("two")

	if err := os.Remove(way("one")); err != nil {
		t.Fatal(err)
	}
	p.send("c")
	if m, err := p.recv(); !isUnavailable(err, novav1.Unavailable_REASON_OVERTAKEN) {
		t.Fatalf("a batch without a store was answered %v, %v; want that its outcome is unknown", m, err)
	}
	row := func() *novav1.StarRow {
		r, err := f.meta.Registry().Star(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	eventually(t, "the fleet is told", 5*time.Second, func() bool { return row().GetIneligible() == storageAway })
	if why := one.refusesLeadership(); why != storageAway {
		t.Errorf("the star itself says %q", why)
	}
	if _, err := f.tryOpen("one", &novav1.Open{Name: "orders", Producer: "p"}); !isNotOwner(err, "two") {
		t.Errorf("an open there = %v, want to be sent to star two", err)
	}

	var q *producer
	eventually(t, "its stream is led elsewhere", 10*time.Second, func() (opened bool) {
		var err error
		q, err = f.tryOpen("two", &novav1.Open{Name: "orders", Producer: "again"})
		return err == nil
	})
	q.append("d")
	if diff := cmp.Diff([]string{"a", "b", "d"}, f.read("two", "orders", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	if err := os.Symlink(real, way("one")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it may lead again", 10*time.Second, func() bool { return row().GetIneligible() == "" })
	f.stopStar("two")
	var r *producer
	eventually(t, "it leads the stream again", 10*time.Second, func() bool {
		var err error
		r, err = f.tryOpen("one", &novav1.Open{Name: "orders", Producer: "once more"})
		return err == nil
	})
	r.append("e")
	if diff := cmp.Diff([]string{"a", "b", "d", "e"}, f.read("one", "orders", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func isUnavailable(err error, reason novav1.Unavailable_Reason) bool {
	away, ok := asError[*api.UnavailableError](err)
	return ok && away.Reason == reason
}

func isNotOwner(err error, star string) bool {
	owner, ok := asError[*api.NotOwnerError](err)
	return ok && owner.Star == star
}

// TestAdmissionSlowsProducersDown holds more unanswered bytes back than a star admits, and sees each batch
// acknowledged all the same, in order.
func TestAdmissionSlowsProducersDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *Config) {
		c.MaxRecordBytes, c.MaxBatchBytes, c.AdmissionBytes = 8<<10, 16<<10, 16<<10
		c.Standard = []string{"file://" + t.TempDir()}
	})
	one := f.start("one")
	value := string(make([]byte, 7<<10))
	var producers []*producer
	for i := range 4 {
		name := fmt.Sprint("s", i)
		f.create(name, anyMode, standard)
		producers = append(producers, f.open("one", name))
	}
	const batches = 20
	for range batches {
		for _, p := range producers {
			p.send(value)
		}
	}
	for _, p := range producers {
		for n := range uint64(batches) {
			if a := p.ack(); a.GetNumber() != n+1 || a.GetBase() != n {
				t.Fatalf("batch %d was acknowledged as %v", n+1, a)
			}
			if held := one.admission.held.Load(); held > 16<<10 {
				t.Fatalf("%d bytes are held, of at most %d", held, 16<<10)
			}
		}
	}
	eventually(t, "all is given back", 5*time.Second, func() bool { return one.admission.held.Load() == 0 })

	// A producer that goes away in the middle gives its share back too.
	for range batches {
		producers[0].send(value)
	}
	if err := producers[0].call.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its share is given back", 5*time.Second, func() bool { return one.admission.held.Load() == 0 })
}
