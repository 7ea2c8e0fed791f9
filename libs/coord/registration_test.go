package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

func TestARegistrationIsWhatTheFleetSees(t *testing.T) {
	f := newFleet(t)
	row := star("a", "A1")
	row.Location = "rack 7"
	r := register(t, f, row)
	stands, err := f.Registry().Star(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "row", row, stands)
	if time.Since(r.Confirmed()) > time.Minute {
		t.Errorf("confirmed %v", r.Confirmed())
	}
	if err := r.Update(t.Context(), func(row *novav1.StarRow) { row.Saturated, row.Star = true, "other" }); err != nil {
		t.Fatal(err)
	}
	stands, err = f.Registry().Star(t.Context(), "a")
	if err != nil || !stands.GetSaturated() || stands.GetStar() != "a" {
		t.Fatalf("after the update: %v, %v", stands, err)
	}
	same(t, "row", r.Row(), stands)
	if isLost(r) {
		t.Error("lost")
	}
}

func TestAnUpdateThatChangesNothingIsNotWritten(t *testing.T) {
	f, faults := newFaultyFleet(t)
	r := register(t, f, star("a", "A1"))
	writes := faults.On("put", "/fleet/stars/", func(_ context.Context, apply func() error) error { return apply() })
	update := func(saturated bool) {
		if err := r.Update(t.Context(), func(row *novav1.StarRow) { row.Saturated = saturated }); err != nil {
			t.Fatal(err)
		}
	}
	update(false)
	update(true)
	update(true)
	if writes.Hits() != 1 {
		t.Errorf("%d writes; want 1", writes.Hits())
	}
}

// A write whose answer was lost stands at a version that the star does not know. That is no loss of its
// session.
func TestAnUpdateWhoseAnswerWasLostIsFoundAgain(t *testing.T) {
	f, faults := newFaultyFleet(t)
	r := register(t, f, star("a", "A1"))
	saturate := func(row *novav1.StarRow) { row.Saturated = true }
	calm := func(row *novav1.StarRow) { row.Saturated = false }

	faults.On("put", "/fleet/stars/", coordtest.Lose).Times(1)
	want(t, r.Update(t.Context(), saturate), coord.ErrUnknown)
	if err := r.Update(t.Context(), calm); err != nil { // it must undo what stands
		t.Fatal(err)
	}
	if row, err := f.Registry().Star(t.Context(), "a"); err != nil || row.GetSaturated() {
		t.Fatalf("row is %v, %v", row, err)
	}
	faults.On("put", "/fleet/stars/", coordtest.Repeat).Times(1)
	if err := r.Update(t.Context(), saturate); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		faults.On("put", "/fleet/stats/", coordtest.Lose).Times(1)
		want(t, r.Stats(t.Context(), &novav1.StatsRow{Leaders: 1}), coord.ErrUnknown)
		if err := r.Stats(t.Context(), &novav1.StatsRow{Leaders: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if isLost(r) {
		t.Error("lost")
	}

	faults.On("put", "/fleet/stars/", coordtest.Lose).Times(1)
	want(t, r.Update(t.Context(), calm), coord.ErrUnknown)
	if err := r.Close(t.Context()); err != nil { // it must remove what stands
		t.Fatal(err)
	}
	_, err := f.Registry().Star(t.Context(), "a")
	want(t, err, coord.ErrNotFound)
}

func TestClosingARegistrationRemovesItsRowsAndLosesNothing(t *testing.T) {
	server := startOxia(t, 1)
	f, client := dial(t, config(server.Addr())), raw(t, server.Addr())
	r := register(t, f, star("a", "A1"))
	if err := r.Stats(t.Context(), &novav1.StatsRow{Leaders: 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if left := fleetRows(t, client); len(left) > 0 {
		t.Errorf("rows are left: %v", left)
	}
	want(t, r.Update(t.Context(), func(row *novav1.StarRow) { row.Saturated = true }), coord.ErrSessionLost)
	if left := fleetRows(t, client); len(left) > 0 || isLost(r) {
		t.Errorf("after the end: rows %v, lost %t", left, isLost(r))
	}
	register(t, f, star("a", "A2")) // the process may register again
}

func TestClosingTheFleetRemovesEveryEphemeralRowAtOnce(t *testing.T) {
	server := startOxia(t, 1)
	cfg := config(server.Addr())
	cfg.SessionTimeout = time.Minute // so that none can be seen to expire
	client := raw(t, server.Addr())
	f := dial(t, cfg)
	register(t, f, star("a", "A1"))
	acquire(t, f, "s")
	if left := fleetRows(t, client); len(left) != 2 {
		t.Fatalf("rows: %v", left)
	}
	began := time.Now()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if left := fleetRows(t, client); len(left) > 0 || time.Since(began) > 5*time.Second {
		t.Errorf("after %v rows are left: %v", time.Since(began), left)
	}
}

func TestRegisterRefusesWhatIsNoIdentity(t *testing.T) {
	f := newFleet(t)
	var field *api.FieldError
	for _, name := range []string{"", "a/b", "ä", "a b"} {
		if _, err := f.Register(t.Context(), star(name, "A1")); !errors.As(err, &field) {
			t.Errorf("star %q: %v", name, err)
		}
	}
	register(t, f, star("a", "A1"))
	if _, err := f.Register(t.Context(), star("b", "B1")); err == nil {
		t.Error("one process is two stars")
	}
}

// S06: the second of two processes with one identity waits for the end of the first, and is refused when
// that does not come.
func TestASecondProcessUnderAnIdentityWaitsAndIsRefused(t *testing.T) {
	t.Parallel()
	address := startOxia(t, 1).Addr()
	a, b := dial(t, config(address)), dial(t, config(address))
	first := register(t, a, star("a", "A1"))

	began := time.Now()
	_, err := b.Register(t.Context(), star("a", "A2"))
	took := time.Since(began)
	want(t, err, coord.ErrIdentityInUse)
	if took < coord.MinSessionTimeout || took > coord.MinSessionTimeout+10*time.Second {
		t.Errorf("refused after %v", took)
	}
	began = time.Now()
	_, err = b.Register(within(t, 300*time.Millisecond), star("a", "A2"))
	want(t, err, coord.ErrIdentityInUse)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("its exit takes %v", took)
	}
	if isLost(first) {
		t.Error("the first has lost its session over it")
	}

	registered := make(chan error, 1)
	go func() {
		_, err := b.Register(t.Context(), star("a", "A2"))
		registered <- err
	}()
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-registered; err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	if row, err := a.Registry().Star(t.Context(), "a"); err != nil || row.GetIncarnation() != "A2" {
		t.Errorf("row is %v, %v", row, err)
	}
}

func TestARegistrationWhoseAnswerWasLostIsTakenOverAtOnce(t *testing.T) {
	f, faults := newFaultyFleet(t)
	faults.On("put", "/fleet/stars/", coordtest.Lose).Times(1)
	_, err := f.Register(t.Context(), star("a", "A1"))
	want(t, err, coord.ErrUnknown)
	began := time.Now()
	r := register(t, f, star("a", "A1"))
	if took := time.Since(began); took > coord.MinSessionTimeout {
		t.Errorf("took %v: it waited for its own session's end", took)
	}
	if err := r.Update(t.Context(), func(row *novav1.StarRow) { row.Saturated = true }); err != nil {
		t.Error(err)
	}
}

func TestADecommissionedIdentityIsRefusedForEver(t *testing.T) {
	tomb := func(f *coord.Fleet) error {
		_, err := f.Rows().Put(context.Background(), coord.TombstoneKey("a"), &novav1.TombstoneRow{Star: "a"}, coord.Absent)
		return err
	}
	t.Run("its tombstone stands", func(t *testing.T) {
		f := newFleet(t)
		if err := tomb(f); err != nil {
			t.Fatal(err)
		}
		_, err := f.Register(t.Context(), star("a", "A1"))
		want(t, err, coord.ErrTombstoned)
		register(t, f, star("b", "B1"))
	})
	t.Run("its tombstone is written while it registers", func(t *testing.T) {
		f, faults := newFaultyFleet(t)
		faults.On("put", "/fleet/stars/", func(_ context.Context, apply func() error) error {
			return errors.Join(tomb(f), apply())
		})
		_, err := f.Register(t.Context(), star("a", "A1"))
		want(t, err, coord.ErrTombstoned)
		_, err = f.Registry().Star(t.Context(), "a")
		want(t, err, coord.ErrNotFound)
		_, err = f.Leases().Acquire(t.Context(), "s", false)
		want(t, err, coord.ErrNotRegistered)
	})
	t.Run("its tombstone cannot be read", func(t *testing.T) {
		f, faults := newFaultyFleet(t)
		defer faults.On("get", "/nova/tombstones/", coordtest.Drop).Off()
		_, err := f.Register(t.Context(), star("a", "A1"))
		want(t, err, coord.ErrUnknown)
		_, err = f.Registry().Star(t.Context(), "a")
		want(t, err, coord.ErrNotFound)
	})
}
