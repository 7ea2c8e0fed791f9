package flightlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/flightlog"
)

func TestPlanFill(t *testing.T) {
	const whole, damaged, missing, poison = flightlog.ShowsWhole, flightlog.ShowsDamaged, flightlog.ShowsMissing, flightlog.ShowsPoison
	type shown = []flightlog.Shown
	open, sealed := flightlog.Ending{}, flightlog.Ending{Ended: true, Seal: 5}
	tests := map[string]struct {
		end    flightlog.Ending
		slot   uint64
		others shown
		want   flightlog.FillStep
	}{
		"a flight":                                  {open, 5, shown{missing, whole}, flightlog.FillFlight},
		"a flight beside a poison, undecided":       {open, 5, shown{poison, whole}, flightlog.FillFlight},
		"poison in an open chain means nothing":     {open, 5, shown{poison, poison}, flightlog.FillNothing},
		"damage still votes":                        {open, 5, shown{damaged, missing}, flightlog.FillObject},
		"a whole one is better":                     {open, 5, shown{damaged, whole}, flightlog.FillFlight},
		"below the seal":                            {sealed, 4, shown{whole, poison}, flightlog.FillFlight},
		"at the seal":                               {sealed, 5, shown{poison, missing}, flightlog.FillPoison},
		"at the seal, a flight that does not count": {sealed, 5, shown{poison, whole}, flightlog.FillPoison},
		"at the end of a chain that was closed":     {sealed, 5, shown{missing, missing}, flightlog.FillNothing},
		"above the seal":                            {sealed, 6, shown{whole, whole}, flightlog.FillNothing},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := flightlog.PlanFill(tc.end, tc.slot, tc.others); got != tc.want {
				t.Errorf("step %v, want %v", got, tc.want)
			}
		})
	}
}

// Every state of one slot on three copies, of which any one is then lost and filled: what was
// acknowledged is shown by two copies again, and what was sealed can be won by no writer.
func TestAFilledStoreVotesAsTheLostOneHadTo(t *testing.T) {
	const whole, missing, poison = flightlog.ShowsWhole, flightlog.ShowsMissing, flightlog.ShowsPoison
	states := []flightlog.Shown{whole, missing, poison}
	count := func(of flightlog.Shown, in []flightlog.Shown) (n int) {
		for _, s := range in {
			if s == of {
				n++
			}
		}
		return n
	}
	acked, sealed := 0, 0
	for n := range 27 {
		before := []flightlog.Shown{states[n%3], states[n/3%3], states[n/9]}
		for lost := range before {
			others := append(append([]flightlog.Shown{}, before[:lost]...), before[lost+1:]...)
			fill := func(end flightlog.Ending) []flightlog.Shown {
				switch flightlog.PlanFill(end, 5, others) {
				case flightlog.FillFlight:
					return append(others[:2:2], whole)
				case flightlog.FillPoison:
					return append(others[:2:2], poison)
				}
				return append(others[:2:2], missing)
			}
			if count(whole, before) >= 2 {
				acked++
				if after := fill(flightlog.Ending{}); count(whole, after) < 2 {
					t.Errorf("%v without copy %d becomes %v: an acknowledged flight lost its quorum", before, lost, after)
				}
			}
			if count(poison, before) >= 2 {
				sealed++
				if after := fill(flightlog.Ending{Ended: true, Seal: 5}); count(poison, after) < 2 {
					t.Errorf("%v without copy %d becomes %v: a writer could win the seal's slot", before, lost, after)
				}
			}
		}
	}
	if acked == 0 || sealed == 0 {
		t.Error("nothing was tried")
	}
}

// S43: an empty folder takes the place of one, is filled, and holds what the others hold; a fill that is
// broken off is gone on with.
func TestABlankFolderIsFilledFromTheOthers(t *testing.T) {
	set, _ := eightFlights(t)
	others := set.List[:2]
	harmFile(t, set.List[0], 3, harms["a bit of a batch"].do) // the other has it whole
	harmFile(t, set.List[1], 4, harms["deleted"].do)
	for _, c := range others { // slot 8 is the seal; what stands above it never counted
		mustPut(t, c, flightlog.SlotKey(testChain, 8), flightlog.Poison{Chain: testChain, Slot: 8, Fencer: "f"}.Encode())
	}
	mustPut(t, others[0], flightlog.SlotKey(testChain, 9), []byte("x"))
	blank := mustOpen(t, "file://"+filepath.Join(t.TempDir(), "blank"))
	mustPut(t, blank, flightlog.SlotKey(testChain, 8), []byte("left by an earlier try, when the chain was open"))
	end := flightlog.Ending{Ended: true, Seal: 8}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := flightlog.FillChain(ctx, others, blank, testChain, end, "f"); !errors.Is(err, context.Canceled) {
		t.Fatalf("an ended context: %v", err)
	}
	for range 2 {
		if _, err := flightlog.FillChain(t.Context(), others, blank, testChain, end, "f"); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range uint64(8) {
		want, err := os.ReadFile(pathOf(set.List[2], slot))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(pathOf(blank, slot)); err != nil || !cmp.Equal(want, got) {
			t.Errorf("slot %d: %d bytes, %v; want %d", slot, len(got), err, len(want))
		}
	}
	if b, err := blank.Get(t.Context(), flightlog.SlotKey(testChain, 8)); err != nil {
		t.Error(err)
	} else if _, err := flightlog.DecodePoison(b); err != nil {
		t.Errorf("at the seal: %v", err)
	}
	if _, err := blank.Get(t.Context(), flightlog.SlotKey(testChain, 9)); !errors.Is(err, flightlog.ErrAbsent) {
		t.Errorf("above the seal: %v", err)
	}
	if _, err := flightlog.FillChain(t.Context(), []flightlog.Copy{others[0], flightlog.Away("gone", errors.New("away"))}, blank, testChain, end, "f"); err == nil {
		t.Error("filled though a copy that had to answer did not")
	}
}

func TestACensusCountsEachCopysPart(t *testing.T) {
	set, _ := eightFlights(t)
	harmFile(t, set.List[0], 2, harms["cut short"].do)
	harmFile(t, set.List[1], 3, harms["deleted"].do)
	harmFile(t, set.List[1], 7, harms["deleted"].do) // not decided
	for verify, damaged := range map[bool]uint64{false: 0, true: 1} {
		got := flightlog.Take(t.Context(), set, testChain, 7, verify)
		want := []flightlog.Census{{Flights: 7, Damaged: damaged}, {Flights: 6, Missing: 1}, {Flights: 7}}
		if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
			t.Errorf("verify %v (-want +got):\n%s", verify, diff)
		}
	}
}

// The fleet has admitted another store: the one before is refused from then on, and the new one passes.
func TestAnIdentityThatChangesRefusesTheStoreBefore(t *testing.T) {
	first, second := mustOpen(t, "file://"+t.TempDir()), mustOpen(t, "file://"+t.TempDir())
	before, err := flightlog.Format(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	known := flightlog.NewKnown(before)
	old, next := flightlog.AdmitAs(first, known), flightlog.AdmitAs(second, known)
	mustPut(t, old, "a/1", []byte("x"))
	if err := next.Put(t.Context(), "a/1", []byte("x")); !errors.Is(err, flightlog.ErrNotAdmitted) {
		t.Errorf("a put into the blank store = %v", err)
	}
	if id, err := flightlog.FormatAs(t.Context(), second, "01JZZZZZZZZZZZZZZZZZZZZZZZ"); err != nil || id != "01JZZZZZZZZZZZZZZZZZZZZZZZ" {
		t.Fatal(id, err)
	}
	known.Set("01JZZZZZZZZZZZZZZZZZZZZZZZ")
	if err := old.Put(t.Context(), "a/2", []byte("x")); !errors.Is(err, flightlog.ErrNotAdmitted) {
		t.Errorf("a put into the store before = %v, want ErrNotAdmitted", err)
	}
	if _, err := old.Get(t.Context(), "a/1"); !errors.Is(err, flightlog.ErrNotAdmitted) {
		t.Errorf("a read of the store before = %v, want ErrNotAdmitted", err)
	}
	if _, err := flightlog.Identify(t.Context(), next); err != nil {
		t.Errorf("the admitted store: %v", err)
	}
}
