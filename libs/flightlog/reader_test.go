package flightlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// written writes batches of streams in turn and returns where they lie.
func written(t testing.TB, set *flightlog.Copies, batches []flightlog.Batch, flightBytes int) []flightlog.BatchRef {
	t.Helper()
	w, got := newWriter(t, set, func(c *flightlog.WriterConfig) { c.FlightBytes = flightBytes })
	for _, b := range batches {
		mustAdd(t, w, b)
	}
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	var refs []flightlog.BatchRef
	for _, c := range got.commits {
		refs = append(refs, c.Batches...)
	}
	return refs
}

func refOf(r flightlog.BatchRef) *novav1.Ref {
	return &novav1.Ref{Slot: r.Slot, Offset: r.Offset, Length: r.Length, Base: r.Base, Count: r.Count, Crc32C: r.CRC}
}

func TestDescriptorsAreWhatWasCommitted(t *testing.T) {
	set, _ := express(t)
	var batches []flightlog.Batch
	for i := range 400 { // a table longer than what is read of a flight at first
		b := makeBatch(i%7, uint64(i/7), 1, 50)
		b.Producer, b.Number, b.Epoch = strings.Repeat("p", i%200), uint64(i), uint64(i%3)
		batches = append(batches, b)
	}
	want := written(t, set, batches, 1<<20)
	r := flightlog.NewReader(set, nil)
	var got []flightlog.BatchRef
	for slot := uint64(0); len(got) < len(want); slot++ {
		refs, err := r.Descriptors(t.Context(), testChain, slot)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, refs...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
}

// S41, reading: one copy is damaged, in any way.
func TestADamagedCopyIsPassedByAndReported(t *testing.T) {
	damage := map[string]func(testing.TB, flightlog.Copy, string){
		"a bit of the batch": func(t testing.TB, c flightlog.Copy, key string) { flightlogtest.FlipBit(t, c, key, -1) },
		"a bit of the table": func(t testing.TB, c flightlog.Copy, key string) { flightlogtest.FlipBit(t, c, key, 60) },
		"a bit of the magic": func(t testing.TB, c flightlog.Copy, key string) { flightlogtest.FlipBit(t, c, key, 0) },
		"cut short":          func(t testing.TB, c flightlog.Copy, key string) { flightlogtest.Truncate(t, c, key, 70) },
		"empty":              func(t testing.TB, c flightlog.Copy, key string) { flightlogtest.Truncate(t, c, key, 0) },
		"gone":               func(t testing.TB, c flightlog.Copy, key string) { flightlogtest.Remove(t, c, key) },
		"another flight's": func(t testing.TB, c flightlog.Copy, key string) {
			other, err := c.Get(context.Background(), flightlog.SlotKey(testChain, 1))
			if err != nil {
				t.Fatal(err)
			}
			flightlogtest.Rewrite(t, c, key, func([]byte) []byte { return other })
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			set, copies := express(t)
			refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 300), makeBatch(1, 1, 1, 299)}, 1)
			harm(t, copies[1], flightlog.SlotKey(testChain, 0))
			var bad []string
			r := flightlog.NewReader(set, func(c, key string, err error) { bad = append(bad, c) })
			for range 3 {
				b, err := r.Batch(t.Context(), testChain, refOf(refs[0]))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(makeBatch(1, 0, 1, 300).Records, b); diff != "" {
					t.Errorf("batch (-want +got):\n%s", diff)
				}
				table, err := r.Descriptors(t.Context(), testChain, 0)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(refs[:1], table); diff != "" {
					t.Errorf("table (-want +got):\n%s", diff)
				}
			}
			if len(bad) == 0 || slices.ContainsFunc(bad, func(c string) bool { return c != copies[1].Name() }) {
				t.Errorf("reported bad copies %v, want %s", bad, copies[1].Name())
			}
		})
	}
}

func TestAReadFailsOnlyWhenNoCopyServes(t *testing.T) {
	set, copies := express(t)
	refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 300)}, 1)
	for _, c := range copies {
		flightlogtest.FlipBit(t, c, flightlog.SlotKey(testChain, 0), -1)
	}
	_, err := flightlog.NewReader(set, nil).Batch(t.Context(), testChain, refOf(refs[0]))
	if !errors.Is(err, flightlog.ErrCorrupt) {
		t.Errorf("Batch = %v, want ErrCorrupt", err)
	}
}

func TestACopyThatHangsCostsOneTimeoutAndIsThenAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := express(t)
		refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 300)}, 1)
		for _, c := range copies[:2] {
			c.Inject(flightlogtest.Hang(make(chan struct{})))
		}
		r := flightlog.NewReader(set, nil)
		began := time.Now()
		for range 10 {
			if _, err := r.Batch(t.Context(), testChain, refOf(refs[0])); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("10 reads beside two copies that hang took %v, want about two timeouts", took)
		}
	})
}

func TestAbsurdRefsAreRefused(t *testing.T) {
	set, _ := express(t)
	refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 300)}, 1)
	r := flightlog.NewReader(set, nil)
	for name, change := range map[string]func(*novav1.Ref){
		"an offset past everything": func(r *novav1.Ref) { r.Offset = ^uint64(0) - 10 },
		"a length past the end":     func(r *novav1.Ref) { r.Length = ^uint32(0) },
		"a slot that is none":       func(r *novav1.Ref) { r.Slot = 77 },
	} {
		ref := refOf(refs[0])
		change(ref)
		if _, err := r.Batch(t.Context(), testChain, ref); err == nil {
			t.Errorf("%s: the batch was read", name)
		}
	}
}

// rowsOf are segment rows in memory.
type rowsOf []*novav1.SegmentRow

func (rows rowsOf) Floor(_ context.Context, _ string, seq uint64) (*novav1.SegmentRow, error) {
	for _, r := range slices.Backward(rows) {
		if r.GetBase() <= seq {
			return proto.CloneOf(r), nil
		}
	}
	return nil, errors.New("no segment")
}

// published cuts a stream's refs into segment rows of n.
func published(stream string, refs []flightlog.BatchRef, n int) rowsOf {
	var rows rowsOf
	for _, r := range refs {
		if r.Stream != stream {
			continue
		}
		if len(rows) == 0 || len(rows[len(rows)-1].Refs) == n {
			rows = append(rows, &novav1.SegmentRow{Base: r.Base, Chains: []string{testChain}})
		}
		last := rows[len(rows)-1]
		last.Refs, last.End = append(last.Refs, refOf(r)), r.End()
	}
	return rows
}

func TestAScanYieldsEveryBatchInOrderFromAnySequenceToAny(t *testing.T) {
	set, copies := express(t)
	var batches []flightlog.Batch
	for i := range 120 {
		batches = append(batches, makeBatch(i%3, uint64(i/3)*4, 4, 10+i))
	}
	refs := written(t, set, batches, 700)
	for slot := range uint64(5) {
		flightlogtest.FlipBit(t, copies[slot%3], flightlog.SlotKey(testChain, slot), -1)
	}
	r := flightlog.NewReader(set, nil)
	rapid.Check(t, func(t *rapid.T) {
		rows := published(streamID(1), refs, rapid.IntRange(1, 41).Draw(t, "refs a row"))
		from := rapid.Uint64Range(0, 159).Draw(t, "from")
		to := rapid.Uint64Range(from+1, 160).Draw(t, "to")
		next := from / 4 * 4
		err := flightlog.Scan(context.Background(), r, rows, streamID(1), from, to, func(b flightlog.ScanBatch) error {
			want := makeBatch(1, next, 4, 10+int(next/4)*3+1)
			if b.Base != next || string(b.Records) != string(want.Records) {
				t.Fatalf("batch at %d with %q, want %d with %q", b.Base, b.Records, next, want.Records)
			}
			next += uint64(b.Count)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if next < to || next-4 >= to {
			t.Fatalf("the scan of [%d, %d) ended at %d", from, to, next)
		}
	})
}

func TestAScanReadsBatchesOfOneFlightTogether(t *testing.T) {
	set, copies := express(t)
	var batches []flightlog.Batch
	for i := range 100 {
		batches = append(batches, makeBatch(1, uint64(i), 1, 100))
	}
	refs := written(t, set, batches, 1<<20)
	reads := func() (n int) {
		for _, c := range copies {
			n += len(c.Calls(flightlogtest.GetRange))
		}
		return n
	}
	before := reads()
	n := 0
	err := flightlog.Scan(t.Context(), flightlog.NewReader(set, nil), published(streamID(1), refs, 1000), streamID(1), 0, 100, func(flightlog.ScanBatch) error { n++; return nil })
	if err != nil || n != 100 {
		t.Fatalf("scan = %v after %d batches", err, n)
	}
	if flights := int(refs[99].Slot) + 1; reads()-before > flights {
		t.Errorf("%d reads for %d flights", reads()-before, flights)
	}
}

func TestAScanRefusesRowsThatAreNotDense(t *testing.T) {
	set, _ := express(t)
	var batches []flightlog.Batch
	for i := range 9 {
		batches = append(batches, makeBatch(1, uint64(i), 1, 100))
	}
	refs := written(t, set, batches, 1<<20)
	tests := map[string]func(rowsOf) rowsOf{
		"a ref is missing":         func(r rowsOf) rowsOf { r[1].Refs = slices.Delete(r[1].Refs, 1, 2); return r },
		"the last ref is missing":  func(r rowsOf) rowsOf { r[1].Refs = r[1].Refs[:2]; return r },
		"the refs are missing":     func(r rowsOf) rowsOf { r[1].Refs = nil; return r },
		"a ref is there twice":     func(r rowsOf) rowsOf { r[1].Refs = append(r[1].Refs[:1:1], r[1].Refs...); return r },
		"the refs are out of turn": func(r rowsOf) rowsOf { slices.Reverse(r[1].Refs); return r },
		"the refs go past the end": func(r rowsOf) rowsOf { r[1].Refs = append(r[1].Refs, r[2].Refs[0]); return r },
		"a row is missing":         func(r rowsOf) rowsOf { return slices.Delete(r, 1, 2) },
		"a ref names no chain":     func(r rowsOf) rowsOf { r[1].Refs[0].Chain = 3; return r },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			rows := change(published(streamID(1), refs, 3))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := flightlog.Scan(ctx, flightlog.NewReader(set, nil), rows, streamID(1), 0, 9, func(flightlog.ScanBatch) error { return nil })
			if err == nil || ctx.Err() != nil {
				t.Errorf("scan = %v, want an error at once", err)
			}
		})
	}
}

func TestAScanEndsWithItsVisitorAndItsContext(t *testing.T) {
	set, _ := express(t)
	refs := written(t, set, []flightlog.Batch{makeBatch(1, 0, 1, 100), makeBatch(1, 1, 1, 100)}, 1)
	rows, r := published(streamID(1), refs, 1), flightlog.NewReader(set, nil)
	enough := fmt.Errorf("enough")
	if err := flightlog.Scan(t.Context(), r, rows, streamID(1), 0, 2, func(flightlog.ScanBatch) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("scan = %v, want the visitor's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := flightlog.Scan(ctx, r, rows, streamID(1), 0, 2, func(flightlog.ScanBatch) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("scan = %v, want the context's error", err)
	}
}
