package coord_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

func create(t testing.TB, f *coord.Fleet, name, id string) (*novav1.NameRow, bool) {
	t.Helper()
	row, created, err := f.Names().Create(t.Context(), &novav1.NameRow{Name: name, Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return row, created
}

func TestANameStandsForOneStreamUntilItIsDeletedForIt(t *testing.T) {
	f := newFleet(t)
	const name = "größe/☃/orders"
	if _, created := create(t, f, name, "1"); !created {
		t.Fatal("not created")
	}
	if row, created := create(t, f, name, "2"); created || row.GetId() != "1" {
		t.Fatalf("a second creation: created %t, id %s", created, row.GetId())
	}
	if err := f.Names().Delete(t.Context(), name, "2"); err != nil { // it stands for another
		t.Fatal(err)
	}
	if row, err := f.Names().Get(t.Context(), name); err != nil || row.GetId() != "1" || row.GetName() != name {
		t.Fatalf("got %v, %v", row, err)
	}
	for range 2 { // deletions are repeatable
		if err := f.Names().Delete(t.Context(), name, "1"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Names().Get(t.Context(), name)
	want(t, err, coord.ErrNotFound)
	if row, created := create(t, f, name, "2"); !created || row.GetId() != "2" {
		t.Fatalf("created again: %t, id %s", created, row.GetId())
	}
}

func TestACreationWhoseAnswerWasLostIsOnesOwnWhenRepeated(t *testing.T) {
	f, faults := newFaultyFleet(t)
	faults.On("put", "/nova/names/", coordtest.Lose).Times(1)
	_, _, err := f.Names().Create(t.Context(), &novav1.NameRow{Name: "n", Id: "1"})
	want(t, err, coord.ErrUnknown)
	if _, created := create(t, f, "n", "1"); !created {
		t.Error("one's own creation is called another's")
	}
}

// List against a filter, over four shards, with names that are prefixes of each other.
func TestListFindsExactlyTheNamesWithAPrefix(t *testing.T) {
	f := dial(t, config(startOxia(t, 4).Addr()))
	var all []string
	rapid.Check(t, func(rt *rapid.T) {
		letters := rapid.SampledFrom([]rune{'a', 'b', '/', 'ß', '☃', '~', ' '})
		name := rapid.StringOfN(letters, 1, 12, -1).Draw(rt, "name")
		if create(t, f, name, name); !slices.Contains(all, name) {
			all = append(all, name)
		}
		prefix := rapid.StringOfN(letters, 0, 4, -1).Draw(rt, "prefix")
		var got []string
		err := f.Names().List(t.Context(), prefix, func(row *novav1.NameRow) error {
			got = append(got, row.GetName())
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			rt.Fatalf("names with %q are %q; want %q", prefix, got, want)
		}
	})
}
