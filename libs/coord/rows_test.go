package coord_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

func TestARowComesBackAsItWasPut(t *testing.T) {
	f := newFleet(t)
	row := &novav1.SegmentRow{
		Base: 7, End: 12, Epoch: 3, CleanRelease: true, Chains: []string{"a/01J/standard"},
		Refs: []*novav1.Ref{{Slot: 9, Offset: 1 << 40, Length: 5, Base: 7, Count: 5, Crc32C: 0xfeedface}},
	}
	v := put(t, f, coord.SegmentKey("s", 7), row, coord.Absent)
	got := &novav1.SegmentRow{}
	at, err := f.Rows().Get(t.Context(), coord.SegmentKey("s", 7), got)
	if err != nil || at != v {
		t.Fatalf("read at version %d, %v; want %d", at, err, v)
	}
	same(t, "row", row, got)
	if len(got.GetNonce()) != 16 {
		t.Errorf("nonce has %d bytes", len(got.GetNonce()))
	}
	if _, err := f.Rows().Get(t.Context(), coord.SegmentKey("s", 8), got); !errors.Is(err, coord.ErrNotFound) {
		t.Errorf("a row that does not stand: %v", err)
	}
}

func TestAPutIsTakenOnlyAtItsVersion(t *testing.T) {
	f := newFleet(t)
	k, rows := coord.HeadKey("s"), f.Rows()
	first := put(t, f, k, &novav1.HeadRow{Epoch: 1}, coord.Absent)
	_, err := rows.Put(t.Context(), k, &novav1.HeadRow{Epoch: 9}, coord.Absent)
	want(t, err, coord.ErrConflict)
	second := put(t, f, k, &novav1.HeadRow{Epoch: 2}, first)
	_, err = rows.Put(t.Context(), k, &novav1.HeadRow{Epoch: 9}, first)
	want(t, err, coord.ErrConflict)
	if _, err := rows.PutAny(t.Context(), k, &novav1.HeadRow{Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	want(t, rows.Delete(t.Context(), k, second), coord.ErrConflict)
	head := &novav1.HeadRow{}
	third, err := rows.Get(t.Context(), k, head)
	if err != nil || head.GetEpoch() != 3 {
		t.Fatalf("epoch %d, %v", head.GetEpoch(), err)
	}
	for range 2 { // a row that is gone already is no error
		if err := rows.Delete(t.Context(), k, third); err != nil {
			t.Fatal(err)
		}
	}
	_, err = rows.Put(t.Context(), k, &novav1.HeadRow{Epoch: 4}, third)
	want(t, err, coord.ErrConflict)
}

func TestADeletionWhoseAnswerWasLostIsDone(t *testing.T) {
	f, faults := newFaultyFleet(t)
	k := coord.HeadKey("s")
	v := put(t, f, k, &novav1.HeadRow{Epoch: 1}, coord.Absent)
	defer faults.On("delete", k.Path, coordtest.Repeat).Off()
	if err := f.Rows().Delete(t.Context(), k, v); err != nil {
		t.Fatal(err)
	}
}

// Fifty writers raise one number by compare-and-set, half of them over the batching client.
func TestAContendedCompareAndSetLosesNoStep(t *testing.T) {
	f := newFleet(t)
	k := coord.HeadKey("s")
	put(t, f, k, &novav1.HeadRow{}, coord.Absent)
	const writers, steps = 20, 5
	var all sync.WaitGroup
	for i := range writers {
		rows := f.Rows()
		if i%2 == 0 {
			rows = rows.Lingering()
		}
		all.Go(func() {
			for done := 0; done < steps; {
				head := &novav1.HeadRow{}
				v, err := rows.Get(t.Context(), k, head)
				if err == nil {
					head.Epoch++
					_, err = rows.Put(t.Context(), k, head, v)
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, coord.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	head := &novav1.HeadRow{}
	if _, err := f.Rows().Get(t.Context(), k, head); err != nil || head.GetEpoch() != writers*steps {
		t.Fatalf("epoch %d, %v; want %d", head.GetEpoch(), err, writers*steps)
	}
}

func TestAWriteWhoseAnswerWasLostIsRecognised(t *testing.T) {
	f, faults := newFaultyFleet(t)
	k, rows := coord.HeadKey("s"), f.Rows()

	// The client repeats the write, as it does when the first answer is lost, and meets its own row.
	faults.On("put", k.Path, coordtest.Repeat).Times(2)
	v := put(t, f, k, &novav1.HeadRow{Epoch: 1}, coord.Absent)
	v = put(t, f, k, &novav1.HeadRow{Epoch: 2}, v)
	if v = put(t, f, k, &novav1.HeadRow{Epoch: 3}, v); v == 0 {
		t.Error("no version")
	}

	// It repeats the write, and another's has come in between.
	faults.On("put", k.Path, func(ctx context.Context, apply func() error) error {
		_ = apply()
		if _, err := rows.PutAny(t.Context(), k, &novav1.HeadRow{Epoch: 99}); err != nil {
			t.Error(err)
		}
		return apply()
	}).Times(1)
	_, err := rows.Put(t.Context(), k, &novav1.HeadRow{Epoch: 4}, v)
	want(t, err, coord.ErrConflict)
	head := &novav1.HeadRow{}
	if _, err := rows.Get(t.Context(), k, head); err != nil || head.GetEpoch() != 99 {
		t.Fatalf("epoch %d, %v; want another's 99", head.GetEpoch(), err)
	}
}

func TestAnOutcomeThatIsNotKnownIsCalledUnknown(t *testing.T) {
	t.Parallel()
	cfg, faults := config(startOxia(t, 1).Addr()), &coordtest.Faults{}
	cfg.Wrap, cfg.RequestTimeout = faults.Wrap, 300*time.Millisecond
	f := dial(t, cfg)
	write := func(k coord.Key) error {
		_, err := f.Rows().Put(t.Context(), k, &novav1.HeadRow{Epoch: 1}, coord.Absent)
		return err
	}
	for name, fault := range map[string]coordtest.Fault{"lost": coordtest.Lose, "dropped": coordtest.Drop, "hanging": coordtest.Hang} {
		t.Run(name, func(t *testing.T) {
			k := coord.HeadKey(name)
			defer faults.On("put", k.Path, fault).Off()
			began := time.Now()
			want(t, write(k), coord.ErrUnknown)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("whose row stands is not known", func(t *testing.T) {
		k := coord.HeadKey("whose")
		defer faults.On("put", k.Path, coordtest.Repeat).Off()
		defer faults.On("get", k.Path, coordtest.Drop).Off()
		err := write(k)
		want(t, err, coord.ErrUnknown)
		if errors.Is(err, coord.ErrConflict) {
			t.Errorf("%v is called a conflict, which it may not be", err)
		}
	})
	t.Run("the caller's context is over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.Rows().Put(ctx, coord.HeadKey("over"), &novav1.HeadRow{}, coord.Absent)
		want(t, err, coord.ErrUnknown)
		want(t, err, context.Canceled)
	})
}

// Oxia's client hands a read's answer over without a buffer: where nobody takes it, the shard's reads
// stand still for ever.
func TestACallerThatGaveUpDoesNotStopLaterReads(t *testing.T) {
	f := newFleet(t)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, _ = f.Rows().Get(ctx, coord.HeadKey("s"), &novav1.HeadRow{})
	}
	_, err := f.Rows().Get(within(t, time.Second), coord.HeadKey("s"), &novav1.HeadRow{})
	want(t, err, coord.ErrNotFound)
}

func TestARowThatIsTooLargeIsRefusedForGood(t *testing.T) {
	f := newFleet(t)
	row := &novav1.TombstoneRow{Why: strings.Repeat("x", 2<<20)}
	_, err := f.Rows().Put(t.Context(), coord.TombstoneKey("a"), row, coord.Absent)
	if err == nil || errors.Is(err, coord.ErrUnknown) {
		t.Errorf("error is %v; want one that does not ask for another try", err)
	}
}

// Floor against a map, with other streams' rows and other kinds of rows around.
func TestFloorFindsTheNewestRowAtOrBelowAmongItsSiblings(t *testing.T) {
	f := newFleet(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		id := fmt.Sprintf("stream%04d", run)
		for _, neighbour := range []string{fmt.Sprintf("stream%04d", run-1), fmt.Sprintf("stream%04da", run)} {
			if _, err := f.Rows().PutAny(t.Context(), coord.SegmentKey(neighbour, 5), &novav1.SegmentRow{Base: 5}); err != nil {
				rt.Fatal(err)
			}
		}
		if _, err := f.Rows().PutAny(t.Context(), coord.HeadKey(id), &novav1.HeadRow{}); err != nil {
			rt.Fatal(err)
		}
		bases := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 50), 0, 6, rapid.ID[uint64]).Draw(rt, "bases")
		for _, base := range bases {
			if _, err := f.Rows().PutAny(t.Context(), coord.SegmentKey(id, base), &novav1.SegmentRow{Base: base}); err != nil {
				rt.Fatal(err)
			}
		}
		seq := rapid.Uint64Range(0, 60).Draw(rt, "seq")
		at, found := uint64(0), false
		for _, base := range bases {
			if base <= seq && (!found || base > at) {
				at, found = base, true
			}
		}
		row := &novav1.SegmentRow{}
		path, v, err := f.Rows().Floor(t.Context(), coord.SegmentKey(id, seq), row)
		switch {
		case !found:
			if !errors.Is(err, coord.ErrNotFound) {
				rt.Fatalf("floor of %d among %v is %s, %v; want none", seq, bases, path, err)
			}
		case err != nil || row.GetBase() != at || path != coord.SegmentKey(id, at).Path:
			rt.Fatalf("floor of %d among %v is %s, %v; want %d", seq, bases, path, err, at)
		default:
			if stands, err := f.Rows().Get(t.Context(), coord.SegmentKey(id, at), row); err != nil || stands != v {
				rt.Fatalf("floor's version %d; want %d, %v", v, stands, err)
			}
		}
	})
}
