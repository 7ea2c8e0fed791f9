package coord_test

import (
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

func refresh(t testing.TB, f *coord.Fleet) *coord.Snapshot {
	t.Helper()
	s, err := f.Registry().Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(s *coord.Snapshot) []string {
	names := []string{}
	for _, m := range s.Stars {
		names = append(names, m.Star.GetStar())
	}
	return names
}

func TestASnapshotHoldsTheStarsByNameAndRisesOnlyOnAChange(t *testing.T) {
	address := startOxia(t, 1).Addr()
	f := dial(t, config(address))
	empty := refresh(t, f)
	same(t, "stars", []string{}, names(empty))
	var registrations []*coord.Registration
	for _, name := range []string{"m", "z", "a"} {
		registrations = append(registrations, register(t, dial(t, config(address)), star(name, name+"1")))
	}
	three := refresh(t, f)
	same(t, "stars", []string{"a", "m", "z"}, names(three))
	if three.Revision <= empty.Revision {
		t.Errorf("revision %d after %d", three.Revision, empty.Revision)
	}
	if again := refresh(t, f); again.Revision != three.Revision || !again.At.After(three.At) {
		t.Errorf("without a change: revision %d after %d, read at %v after %v", again.Revision, three.Revision, again.At, three.At)
	}
	m, ok := three.Member("m")
	if !ok || m.Star.GetAddress() != "m:7000" || m.Stats != nil {
		t.Errorf("member m is %v", m)
	}
	if _, ok := three.Member("b"); ok {
		t.Error("a star that is none is a member")
	}

	if err := registrations[0].Stats(t.Context(), &novav1.StatsRow{Leaders: 4}); err != nil {
		t.Fatal(err)
	}
	withStats := refresh(t, f)
	if m, _ := withStats.Member("m"); m.Stats.GetLeaders() != 4 || withStats.Revision <= three.Revision {
		t.Errorf("stats are %v at revision %d", m.Stats, withStats.Revision)
	}
	if stars, stats := withStats.Rows(); len(stars) != 3 || len(stats) != 1 {
		t.Errorf("%d stars, %d stats", len(stars), len(stats))
	}
	if err := registrations[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "stars", []string{"a", "z"}, names(refresh(t, f)))
}

func TestTheSnapshotFollowsByItself(t *testing.T) {
	t.Parallel()
	address := startOxia(t, 1).Addr()
	f := dial(t, config(address))
	register(t, dial(t, config(address)), star("a", "A1"))
	until(t, 5*time.Second, "the snapshot has the star", func() bool { return len(f.Registry().Snapshot().Stars) == 1 })
}

func TestWithinScansOnlyWhatIsTooOld(t *testing.T) {
	f := newFleet(t)
	last := refresh(t, f)
	if s, err := f.Registry().Within(t.Context(), time.Hour); err != nil || s.At.Before(last.At) {
		t.Errorf("an old snapshot, of %v: %v", s.At, err)
	}
	asked := time.Now()
	s, err := f.Registry().Within(t.Context(), 0)
	if err != nil || s.At.Before(asked) {
		t.Errorf("asked for a new one, got one of %v before: %v", asked.Sub(s.At), err)
	}
}

// What one process has written badly must not blind the fleet.
func TestARowThatCannotBeReadIsPassedOver(t *testing.T) {
	server := startOxia(t, 1)
	f, client := dial(t, config(server.Addr())), raw(t, server.Addr())
	register(t, f, star("a", "A1"))
	for _, key := range []string{"/fleet/stars/bad", "/fleet/stats/a", "/fleet/stats/bad"} {
		if _, _, err := client.Put(t.Context(), key, []byte{0xff, 0xff}, oxia.PartitionKey("fleet")); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "stars", []string{"a"}, names(refresh(t, f)))
}

func TestStarIsAFreshRead(t *testing.T) {
	address := startOxia(t, 1).Addr()
	f := dial(t, config(address))
	_, err := f.Registry().Star(t.Context(), "a")
	want(t, err, coord.ErrNotFound)
	r := register(t, dial(t, config(address)), star("a", "A1"))
	if row, err := f.Registry().Star(t.Context(), "a"); err != nil || row.GetIncarnation() != "A1" {
		t.Errorf("star is %v, %v", row, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = f.Registry().Star(t.Context(), "a")
	want(t, err, coord.ErrNotFound)
}
