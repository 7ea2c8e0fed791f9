package flightlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// ledger is what a repairer reported.
type ledger struct {
	mu                               sync.Mutex
	found, mended, unmended, dropped []string
}

func (l *ledger) note(to *[]string, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*to = append(*to, fmt.Sprintf(format, args...))
}

func (l *ledger) Found(copy, key string, shown flightlog.Shown) {
	l.note(&l.found, "%s %s %s", filepath.Base(copy), key, shown)
}
func (l *ledger) Mended(copy, key string, was flightlog.Shown) {
	l.note(&l.mended, "%s %s %s", filepath.Base(copy), key, was)
}
func (l *ledger) Unmended(copy, key string, err error) {
	l.note(&l.unmended, "%s %s %v", filepath.Base(copy), key, err)
}
func (l *ledger) Dropped(copy, key string) { l.note(&l.dropped, "%s %s", copy, key) }

func (l *ledger) lines(of *[]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), *of...)
}

// harms is what happens to files.
var harms = map[string]struct {
	do  func(b []byte) []byte // nil: the file is removed
	was string
}{
	"a bit of a batch":    {func(b []byte) []byte { b[len(b)-1] ^= 4; return b }, "damaged"},
	"a bit of the table":  {func(b []byte) []byte { b[60] ^= 1; return b }, "damaged"},
	"a bit of the nonce":  {func(b []byte) []byte { b[30] ^= 128; return b }, "damaged"},
	"a bit of the magic":  {func(b []byte) []byte { b[0] ^= 1; return b }, "damaged"},
	"the version":         {func(b []byte) []byte { b[4] = 200; return b }, "newer"},
	"cut short":           {func(b []byte) []byte { return b[:len(b)/2] }, "damaged"},
	"cut to nothing":      {func([]byte) []byte { return []byte{} }, "damaged"},
	"deleted":             {func([]byte) []byte { return nil }, "missing"},
	"a stray poison":      {func([]byte) []byte { return flightlog.Poison{Chain: testChain, Slot: 3, Fencer: "f"}.Encode() }, "poison"},
	"another slot's file": {func(b []byte) []byte { b[12]++; return b }, "damaged"},
}

func pathOf(c flightlog.Copy, slot uint64) string {
	return filepath.Join(strings.TrimPrefix(c.Name(), "file://"), filepath.FromSlash(flightlog.SlotKey(testChain, slot)))
}

// harmFile changes a copy's file behind its back, in place.
func harmFile(t testing.TB, c flightlog.Copy, slot uint64, harm func([]byte) []byte) {
	t.Helper()
	path := pathOf(c, slot)
	b, err := os.ReadFile(path)
	if err == nil {
		if b = harm(b); b == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, b, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// eightFlights writes flights 0 to 7 over three folders.
func eightFlights(t *testing.T) (*flightlog.Copies, []flightlog.BatchRef) {
	t.Helper()
	set := fileCopies(t, t.TempDir())
	var batches []flightlog.Batch
	for i := range uint64(8) {
		batches = append(batches, makeBatch(1, i, 1, 900))
	}
	refs := written(t, set, batches, 1)
	if len(refs) != 8 || refs[7].Slot != 7 {
		t.Fatalf("batches lie at %+v, want one a slot", refs)
	}
	return set, refs
}

func sameOnEveryCopy(t *testing.T, set *flightlog.Copies, slots uint64) {
	t.Helper()
	for slot := range slots {
		first, err := os.ReadFile(pathOf(set.List[0], slot))
		if err != nil {
			t.Error(err)
		}
		if _, err := flightlog.Verify(first); err != nil {
			t.Errorf("slot %d: %v", slot, err)
		}
		for _, c := range set.List[1:] {
			if b, err := os.ReadFile(pathOf(c, slot)); err != nil || !bytes.Equal(b, first) {
				t.Errorf("slot %d on %s: %d bytes, %v; want the %d of the first copy", slot, c.Name(), len(b), err, len(first))
			}
		}
	}
}

// running runs a repairer until the test ends.
func running(t testing.TB, r *flightlog.Repairer) {
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
}

// S41: a minority copy is damaged in any way; a reader gets the right bytes from the others, and the copy
// is whole again without anybody's doing.
func TestWhatAReadFindsDamagedIsRepaired(t *testing.T) {
	for name, harm := range harms {
		for _, bad := range []int{0, 2} {
			t.Run(fmt.Sprint(name, " on copy ", bad), func(t *testing.T) {
				t.Parallel() // a missing object is given ten seconds
				set, refs := eightFlights(t)
				harmFile(t, set.List[bad], 3, harm.do)
				var told ledger
				repairer := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &told)
				running(t, repairer)
				r := flightlog.NewReader(set, repairer.ReadFault)
				for range 3 { // each copy is asked first once
					if got, err := r.Batch(t.Context(), testChain, refOf(refs[3])); err != nil || !bytes.Equal(got, makeBatch(1, 3, 1, 900).Records) {
						t.Fatalf("read %q, %v", got, err)
					}
					if _, err := r.Descriptors(t.Context(), testChain, 3); err != nil {
						t.Fatal(err)
					}
				}
				want := fmt.Sprintf("copy-%d %s %s", bad, flightlog.SlotKey(testChain, 3), harm.was)
				for deadline := time.Now().Add(30 * time.Second); len(told.lines(&told.mended)) == 0; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("not repaired: %+v", told.lines(&told.unmended))
					}
				}
				if got := told.lines(&told.mended); len(got) != 1 || got[0] != want {
					t.Errorf("mended %q, want %q", got, want)
				}
				if got := told.lines(&told.found); len(got) != 1 || got[0] != want {
					t.Errorf("found %q, want %q", got, want)
				}
				sameOnEveryCopy(t, set, 8)
			})
		}
	}
}

// S41 without a reader: the scrub finds the same.
func TestAScrubRepairsWhatNobodyReads(t *testing.T) {
	set, _ := eightFlights(t)
	slots := uint64(0)
	for _, harm := range harms {
		if slots == 8 {
			break
		}
		if harm.was == "poison" {
			harm.do = func([]byte) []byte { return flightlog.Poison{Chain: testChain, Slot: slots, Fencer: "f"}.Encode() }
		}
		harmFile(t, set.List[slots%3], slots, harm.do)
		slots++
	}
	var told ledger
	r := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &told)
	got, err := r.Scrub(t.Context(), testChain, 0, 8, 0)
	if err != nil || got.Slots != 8 || got.Mended != 8 || got.Unmended != 0 {
		t.Errorf("scrubbed %+v, %v; want all 8 slots mended", got, err)
	}
	sameOnEveryCopy(t, set, 8)
	again, err := r.Scrub(t.Context(), testChain, 0, 8, 0)
	if err != nil || again.Mended != 0 || len(told.lines(&told.mended)) != 8 {
		t.Errorf("the second pass %+v, %v; mended in all %q", again, err, told.lines(&told.mended))
	}
}

func TestAScrubReadsNoFasterThanItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, _ := express(t)
		written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 5000), makeBatch(1, 1, 1, 5000)}, 1)
		began := time.Now()
		r := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &ledger{})
		got, err := r.Scrub(t.Context(), testChain, 0, 2, 10_000)
		if err != nil || got.Bytes < 30_000 {
			t.Fatalf("scrubbed %+v, %v", got, err)
		}
		if took, want := time.Since(began), time.Duration(got.Bytes)*time.Second/10_000; took.Round(time.Millisecond) != want.Round(time.Millisecond) {
			t.Errorf("%d bytes took %v, want %v", got.Bytes, took, want)
		}
	})
}

// A copy that is away is repaired once it is back, and holds up no other's repair meanwhile.
func TestARepairWaitsForItsCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 500), makeBatch(1, 1, 1, 500)}, 1)
		flightlogtest.Remove(t, copies[0], flightlog.SlotKey(testChain, 0))
		flightlogtest.FlipBit(t, copies[1], flightlog.SlotKey(testChain, 1), -1)
		copies[0].Inject(flightlogtest.Down())
		var told ledger
		r := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &told)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { r.Run(ctx) })
		r.Missed(copies[0].Name(), testChain, 0)
		r.Missed(copies[1].Name(), testChain, 1)
		synctest.Wait()
		if got := told.lines(&told.mended); len(got) != 1 || !strings.HasSuffix(got[0], "damaged") {
			t.Errorf("with one copy away mended %q, want the other one's flight", got)
		}
		time.Sleep(time.Hour)
		looks := len(copies[0].Calls(flightlogtest.Get))
		if looks > 70 {
			t.Errorf("%d looks at a copy that was away for an hour", looks)
		}
		copies[0].Inject(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := holders(t, copies, 0) + holders(t, copies, 1); n != 6 || r.Waiting() != 0 {
			t.Errorf("%d of 6 objects stand, %d repairs wait", n, r.Waiting())
		}
		cancel()
		run.Wait()
	})
}

func TestWhatNoCopyHoldsWholeIsSaidAndLeftAsItIs(t *testing.T) {
	set, _ := eightFlights(t)
	for _, c := range set.List {
		harmFile(t, c, 3, harms["a bit of a batch"].do)
	}
	before, err := os.ReadFile(pathOf(set.List[0], 3))
	if err != nil {
		t.Fatal(err)
	}
	var told ledger
	r := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &told)
	if _, err := r.Mend(t.Context(), testChain, 3); !errors.Is(err, flightlog.ErrLost) {
		t.Errorf("Mend = %v, want ErrLost", err)
	}
	if got := told.lines(&told.unmended); len(got) != 1 {
		t.Errorf("told %q", got)
	}
	if after, err := os.ReadFile(pathOf(set.List[0], 3)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the damaged object was touched: %v", err)
	}
}

// A write whose answer is an error is no repair, also where it landed.
func TestARepairThatIsNotAnsweredIsNone(t *testing.T) {
	for name, fault := range map[string]flightlogtest.Faults{
		"refused":      flightlogtest.FailOn(flightlogtest.Overwrite),
		"not answered": flightlogtest.LoseAnswers(flightlogtest.Overwrite),
		"not read back": func(c flightlogtest.Call) flightlogtest.Fault {
			if c.Op == flightlogtest.Get && c.N == 3 { // the test's own, the look, the reading back
				return flightlogtest.Fault{Err: flightlogtest.ErrInjected}
			}
			return flightlogtest.Fault{}
		},
	} {
		set, copies := express(t)
		written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 500)}, 1)
		flightlogtest.FlipBit(t, copies[1], flightlog.SlotKey(testChain, 0), -1)
		copies[1].Inject(fault)
		var told ledger
		r := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &told)
		if _, err := r.Mend(t.Context(), testChain, 0); !errors.Is(err, flightlogtest.ErrInjected) || len(told.mended) > 0 || len(told.unmended) != 1 {
			t.Errorf("%s: %v, mended %q, unmended %q", name, err, told.mended, told.unmended)
		}
		copies[1].Inject(nil)
		if _, err := r.Mend(t.Context(), testChain, 0); err != nil || holders(t, copies, 0) != 3 {
			t.Errorf("%s: the next try: %v, %d hold it", name, err, holders(t, copies, 0))
		}
	}
}

// The Reader's own faults: what a copy that is away answers is no reason to write to it.
func TestOnlyWhatAnswersIsQueued(t *testing.T) {
	set, copies := express(t)
	refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 500)}, 1)
	copies[1].Inject(flightlogtest.Down())
	r := flightlog.NewRepairer(func() *flightlog.Copies { return set }, &ledger{})
	reader := flightlog.NewReader(set, r.ReadFault)
	for range 3 {
		if _, err := reader.Batch(t.Context(), testChain, refOf(refs[0])); err != nil {
			t.Fatal(err)
		}
	}
	if r.Waiting() != 0 {
		t.Errorf("%d repairs wait for a copy that is only away", r.Waiting())
	}
}
