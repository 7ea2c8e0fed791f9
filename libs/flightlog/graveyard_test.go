package flightlog_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// flightBytes is the object of one small flight in the slot.
func flightBytes(t testing.TB, slot uint64) []byte {
	t.Helper()
	set, copies := express(t)
	var batches []flightlog.Batch
	for i := range slot + 1 {
		batches = append(batches, makeBatch(1, i, 1, 40))
	}
	written(t, set, batches, 1)
	b, err := copies[0].Get(t.Context(), flightlog.SlotKey(testChain, slot))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVotes(t *testing.T) {
	const slot = 2
	key := flightlog.SlotKey(testChain, slot)
	good := flightBytes(t, slot)
	poison := flightlog.Poison{Chain: testChain, Slot: slot, Fencer: "star-9"}
	flip := func(b []byte, at int) []byte { b = append([]byte(nil), b...); b[at] ^= 1; return b }
	newer := append([]byte(nil), poison.Encode()...)
	newer[4]++
	elsewhere := poison
	elsewhere.Slot++

	tests := map[string]struct {
		object []byte
		want   flightlog.Holding
	}{
		"a flight":                                   {good, flightlog.HoldsFlight},
		"a flight with a bad batch":                  {flip(good, len(good)-1), flightlog.HoldsFlight},
		"a flight with a bad header":                 {flip(good, 3), flightlog.HoldsFlight},
		"a flight cut short":                         {good[:10], flightlog.HoldsFlight},
		"an empty object":                            {[]byte{}, flightlog.HoldsFlight},
		"a poison":                                   {poison.Encode(), flightlog.HoldsPoison},
		"a poison with a bad checksum":               {flip(poison.Encode(), 20), flightlog.HoldsFlight},
		"a poison with something behind it":          {append(poison.Encode(), 0), flightlog.HoldsFlight},
		"a poison of another slot":                   {elsewhere.Encode(), flightlog.HoldsFlight},
		"a poison that only newer software can read": {newer, flightlog.HoldsUnknown},
		"nothing":                                    {nil, flightlog.HoldsNothing},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set, copies := express(t)
			if tc.object != nil {
				flightlogtest.Store(copies[1], key, tc.object)
			}
			got := flightlog.NewGraveyard(set, testChain, "star-9").Ask(t.Context(), slot)
			if got[1].Holds != tc.want {
				t.Errorf("vote = %q (%v), want %q", got[1].Holds, got[1].Err, tc.want)
			}
			if n := len(copies[1].Calls(flightlogtest.Confirm)); tc.object != nil && n == 0 {
				t.Error("a seen object was counted before it was made durable")
			}
		})
	}
}

func TestAVoteThatCannotBeMadeDurableDoesNotCount(t *testing.T) {
	set, copies := express(t)
	flightlogtest.Store(copies[0], flightlog.SlotKey(testChain, 0), []byte("x"))
	copies[0].Inject(flightlogtest.FailOn(flightlogtest.Confirm))
	want := flightlog.Votes{Away: 1, Empty: 2}
	if diff := cmp.Diff(want, flightlog.NewGraveyard(set, testChain, "f").Vote(t.Context(), 0)); diff != "" {
		t.Errorf("votes (-want +got):\n%s", diff)
	}
}

func TestACopyThatHangsIsAwayAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		copies[2].Inject(flightlogtest.Hang(make(chan struct{})))
		began := time.Now()
		want := flightlog.Votes{Away: 1, Empty: 2}
		if diff := cmp.Diff(want, flightlog.NewGraveyard(set, testChain, "f").Vote(t.Context(), 0)); diff != "" {
			t.Errorf("votes (-want +got):\n%s", diff)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the vote took %v", took)
		}
	})
}

func TestCompleteCopiesAnUndamagedFlightToEmptyCopiesOnly(t *testing.T) {
	const slot = 1
	key := flightlog.SlotKey(testChain, slot)
	good := flightBytes(t, slot)
	bad := append([]byte(nil), good...)
	bad[len(bad)-1] ^= 1
	set, copies := express(t)
	flightlogtest.Store(copies[0], key, bad)
	flightlogtest.Store(copies[1], key, good)
	g := flightlog.NewGraveyard(set, testChain, "f")
	if err := g.Complete(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{bad, good, good} {
		got, err := copies[i].Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("copy %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestCompleteRefusesToSpreadADamagedOrForeignFlight(t *testing.T) {
	good := flightBytes(t, 1)
	bad := append([]byte(nil), good...)
	bad[len(bad)-1] ^= 1
	for name, tc := range map[string]struct {
		slot   uint64
		object []byte
	}{
		"damaged":           {1, bad},
		"of another slot":   {2, good},
		"no flight at all":  {1, []byte("what is this")},
		"nothing, anywhere": {1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, copies := express(t)
			if tc.object != nil {
				flightlogtest.Store(copies[0], flightlog.SlotKey(testChain, tc.slot), tc.object)
			}
			if err := flightlog.NewGraveyard(set, testChain, "f").Complete(t.Context(), tc.slot); err == nil {
				t.Error("completed")
			}
			if _, err := copies[1].Get(t.Context(), flightlog.SlotKey(testChain, tc.slot)); !errors.Is(err, flightlog.ErrAbsent) {
				t.Errorf("the empty copy answers %v, want ErrAbsent", err)
			}
		})
	}
}

func TestPoisonTakesEmptyPlacesOnly(t *testing.T) {
	const slot = 0
	set, copies := express(t)
	flightlogtest.Store(copies[2], flightlog.SlotKey(testChain, slot), []byte("a flight, for all anybody knows"))
	g := flightlog.NewGraveyard(set, testChain, "f")
	for range 2 { // and again: it may be repeated
		if err := g.Poison(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
		want := flightlog.Votes{Poison: 2, Flight: 1}
		if diff := cmp.Diff(want, g.Vote(t.Context(), slot)); diff != "" {
			t.Errorf("votes (-want +got):\n%s", diff)
		}
	}
	b, err := copies[0].Get(t.Context(), flightlog.SlotKey(testChain, slot))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := flightlog.DecodePoison(b); err != nil || p.Fencer != "f" || p.Slot != slot || p.Chain != testChain || p.Nonce == [16]byte{} {
		t.Errorf("poison = %+v, %v", p, err)
	}
}

// S43: a copy is replaced by an empty folder while the star that wrote to it is dead.
func TestABlankCopyNeitherVotesNorTakesPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for i, c := range copies {
			id, err := flightlog.Format(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			set.List[i] = flightlog.Admit(c, id)
		}
		flights := []flightlog.Batch{makeBatch(1, 0, 1, 10), makeBatch(1, 1, 1, 10)}
		refs := written(t, set, flights, 1)

		_, blanks := flightlogtest.Mem(t, 0, 1)
		copies[0].Replace(blanks[0])
		g := flightlog.NewGraveyard(set, testChain, "f")
		want := flightlog.Votes{Flight: 2, Away: 1}
		for _, r := range refs {
			if diff := cmp.Diff(want, g.Vote(t.Context(), r.Slot)); diff != "" {
				t.Errorf("votes on slot %d (-want +got):\n%s", r.Slot, diff)
			}
		}
		next := refs[len(refs)-1].Slot + 1
		if err := g.Poison(t.Context(), next); !errors.Is(err, flightlog.ErrNotAdmitted) {
			t.Errorf("Poison = %v, want the blank copy's refusal in it", err)
		}
		want = flightlog.Votes{Poison: 2, Away: 1}
		if diff := cmp.Diff(want, g.Vote(t.Context(), next)); diff != "" {
			t.Errorf("votes on slot %d (-want +got):\n%s", next, diff)
		}
		if _, err := blanks[0].Get(t.Context(), flightlog.SlotKey(testChain, next)); !errors.Is(err, flightlog.ErrAbsent) {
			t.Errorf("the blank store took a put: %v", err)
		}

		copies[0].Replace(nil)
		time.Sleep(3 * time.Second)
		want = flightlog.Votes{Flight: 3}
		if diff := cmp.Diff(want, g.Vote(t.Context(), 0)); diff != "" {
			t.Errorf("votes after the right store is back (-want +got):\n%s", diff)
		}
	})
}

// A store that is exchanged under a live writer, without one failed call between.
func TestAPutIntoAnExchangedStoreIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		for i, c := range copies {
			id, err := flightlog.Format(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			set.List[i] = flightlog.Admit(c, id)
		}
		w, got := newWriter(t, set)
		mustAdd(t, w, makeBatch(1, 0, 1, 10))
		synctest.Wait()
		copies[1].Inject(flightlogtest.Down())
		_, blanks := flightlogtest.Mem(t, 0, 1)
		copies[2].Replace(blanks[0])
		mustAdd(t, w, makeBatch(1, 1, 1, 10))
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]uint64{0}, got.slots()); diff != "" {
			t.Errorf("committed with one right copy of three (-want +got):\n%s", diff)
		}
		copies[2].Replace(nil)
		time.Sleep(5 * time.Second)
		if diff := cmp.Diff([]uint64{0, 1}, got.slots()); diff != "" {
			t.Errorf("committed after the right store came back (-want +got):\n%s", diff)
		}
	})
}

func TestASurveyFindsTheHighestSlotAndTheCommittedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		w, _ := newWriter(t, set)
		for i := range 10 {
			mustAdd(t, w, makeBatch(1, uint64(i), 1, 10))
			synctest.Wait()
		}
		g := flightlog.NewGraveyard(set, testChain, "f")
		survey := func(floor uint64) string {
			s := g.Survey(t.Context(), floor)
			out := fmt.Sprintf("committed %d:", s.Committed)
			for _, c := range s.Copies {
				out += fmt.Sprintf(" %v/%d/%v", c.Any, c.Last, c.Err != nil)
			}
			return out
		}
		want := func(floor uint64, want string) {
			t.Helper()
			if diff := cmp.Diff(want, survey(floor)); diff != "" {
				t.Errorf("survey from %d (-want +got):\n%s", floor, diff)
			}
		}
		want(0, "committed 9: true/9/false true/9/false true/9/false")
		want(9, "committed 9: true/9/false true/9/false true/9/false")
		want(10, "committed 10: false/0/false false/0/false false/0/false")

		copies[0].Inject(flightlogtest.Down())
		flightlogtest.FlipBit(t, copies[1], flightlog.SlotKey(testChain, 9), 50)
		flightlogtest.Store(copies[1], flightlog.SlotKey(testChain, 12), flightlog.Poison{Chain: testChain, Slot: 12}.Encode())
		flightlogtest.Truncate(t, copies[2], flightlog.SlotKey(testChain, 9), 0)
		flightlogtest.Remove(t, copies[2], flightlog.SlotKey(testChain, 8))
		want(3, "committed 8: false/0/true true/12/false true/9/false")
	})
}
