package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

// atOnce calls write for each of n, a bounded number at a time.
func atOnce(t testing.TB, n int, write func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(n, 128) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := write(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// fill writes n segment rows of a stream.
func fill(t testing.TB, f *coord.Fleet, id string, n int) {
	t.Helper()
	atOnce(t, n, func(i int) error {
		_, err := f.Rows().Lingering().Put(t.Context(), coord.SegmentKey(id, uint64(i)), &novav1.SegmentRow{Base: uint64(i)}, coord.Absent)
		return err
	})
}

// More rows than Oxia sends in one message, of one stream among others, in four shards.
func TestAScanWithinAPartitionIsCompleteAndInOrder(t *testing.T) {
	f := dial(t, config(startOxia(t, 4).Addr()))
	const n = 2500
	fill(t, f, "s", n)
	fill(t, f, "r", 10)
	fill(t, f, "t", 10)
	next := uint64(0)
	err := f.Rows().Scan(t.Context(), coord.SegmentKey("s", 0).Path, coord.SegmentKey("s", n).Path, "s", func(path string, v coord.Version, value []byte) error {
		if path != coord.SegmentKey("s", next).Path {
			return fmt.Errorf("row %d is %s", next, path)
		}
		next++
		return nil
	})
	if err != nil || next != n {
		t.Fatalf("%d rows, %v; want %d", next, err, n)
	}
	if count, err := f.Rows().Segments(t.Context(), "s", 1200); err != nil || count != 1200 {
		t.Errorf("%d segments below 1200, %v", count, err)
	}
}

func TestChainsOfEveryStarAreVisitedInAllShards(t *testing.T) {
	f := dial(t, config(startOxia(t, 4).Addr()))
	var chains []string
	for i := range 20 {
		for _, class := range []string{"express", "standard"} {
			chain := fmt.Sprintf("star%d/01J%d/%s", i, i, class)
			chains = append(chains, chain)
			put(t, f, coord.ChainKey(chain), &novav1.ChainRow{Chain: chain}, coord.Absent)
		}
	}
	var got []string
	if err := f.Rows().Chains(t.Context(), func(row *novav1.ChainRow) error {
		got = append(got, row.GetChain())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(chains)
	same(t, "chains", chains, got)
}

var errEnough = errors.New("enough")

// goleak, in TestMain, says whether a scan that was broken off left something behind.
func TestAScanEndsWithItsVisitor(t *testing.T) {
	f := dial(t, config(startOxia(t, 4).Addr()))
	atOnce(t, 6000, func(i int) error { // more than Oxia sends of any shard before some of it is read
		name := fmt.Sprintf("%064d", i)
		_, err := f.Rows().Lingering().PutAny(t.Context(), coord.NameKey(name), &novav1.NameRow{Name: name})
		return err
	})
	fill(t, f, "s", 2000)
	for range 20 {
		seen := 0
		err := f.Names().List(t.Context(), "", func(*novav1.NameRow) error {
			if seen++; seen == 3 {
				return errEnough
			}
			return nil
		})
		want(t, err, errEnough)
		err = f.Rows().Scan(t.Context(), coord.SegmentKey("s", 0).Path, coord.SegmentKey("s", 9999).Path, "s", func(string, coord.Version, []byte) error { return errEnough })
		want(t, err, errEnough)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := f.Names().List(ctx, "", func(*novav1.NameRow) error { cancel(); return nil })
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a scan whose context ended: %v", err)
	}
}

func TestAScanThatFallsSilentEnds(t *testing.T) {
	t.Parallel()
	faults, proxy := &coordtest.Faults{}, coordtest.NewProxy(t, startOxia(t, 1).Addr())
	cfg := config(proxy.Addr())
	cfg.Wrap, cfg.RequestTimeout = faults.Wrap, 500*time.Millisecond
	f := dial(t, cfg)
	fill(t, f, "s", 1)
	scan := func(visit func(string, coord.Version, []byte) error) error {
		return f.Rows().Scan(t.Context(), coord.SegmentKey("s", 0).Path, coord.SegmentKey("s", 9).Path, "s", visit)
	}
	visited := func(string, coord.Version, []byte) error { return nil }

	proxy.Stall()
	began := time.Now()
	want(t, scan(visited), coord.ErrUnknown)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	proxy.Mend()
	defer faults.On("scan", "/nova/s/", coordtest.Drop).Off()
	want(t, scan(visited), coord.ErrUnknown)
}

// The time that a visitor takes is not Oxia's.
func TestASlowVisitorDoesNotEndAScan(t *testing.T) {
	t.Parallel()
	cfg := config(startOxia(t, 1).Addr())
	cfg.RequestTimeout = 200 * time.Millisecond
	f := dial(t, cfg)
	for i := range 3 {
		put(t, f, coord.SegmentKey("s", uint64(i)), &novav1.SegmentRow{}, coord.Absent)
	}
	seen := 0
	err := f.Rows().Scan(t.Context(), coord.SegmentKey("s", 0).Path, coord.SegmentKey("s", 9).Path, "s", func(string, coord.Version, []byte) error {
		seen++
		time.Sleep(300 * time.Millisecond)
		return nil
	})
	if err != nil || seen != 3 {
		t.Fatalf("%d rows, %v", seen, err)
	}
}

func TestDeletingAStreamsRowsLeavesItsHeadAndOtherStreams(t *testing.T) {
	f := dial(t, config(startOxia(t, 2).Addr()))
	for _, id := range []string{"a", "aa", "b"} {
		fill(t, f, id, 5)
		put(t, f, coord.HeadKey(id), &novav1.HeadRow{Id: id}, coord.Absent)
		put(t, f, coord.EpochKey(id, 1), &novav1.EpochRow{}, coord.Absent)
	}
	for range 2 { // it may be repeated
		if err := f.Rows().DeleteStream(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	for id, left := range map[string]uint64{"a": 0, "aa": 5, "b": 5} {
		if n, err := f.Rows().Segments(t.Context(), id, 99); err != nil || n != left {
			t.Errorf("%d segments of %s are left, %v; want %d", n, id, err, left)
		}
		if _, err := f.Rows().Get(t.Context(), coord.HeadKey(id), &novav1.HeadRow{}); err != nil {
			t.Errorf("head of %s: %v", id, err)
		}
	}
	_, err := f.Rows().Get(t.Context(), coord.EpochKey("a", 1), &novav1.EpochRow{})
	want(t, err, coord.ErrNotFound)
}
