package orderlog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// However the offsets arrive and however often the committer looks, entries leave in order, each once, and
// none is held back that is not waiting for a missing neighbour.
func TestEntriesLeaveTheQueueInOffsetOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int64Range(0, 1000).Draw(t, "first")
		n := rapid.IntRange(0, 40).Draw(t, "entries")
		offsets := make([]int64, n)
		for i := range offsets {
			offsets[i] = first + int64(i)
		}
		q := newQueue(first)
		var got []int64
		arrived := map[int64]bool{}
		for _, offset := range rapid.Permutation(offsets).Draw(t, "arrival") {
			arrived[offset] = true
			if err := q.push(entry{offset: offset, payload: make([]byte, 10)}); err != nil {
				t.Fatalf("push %d: %v", offset, err)
			}
			if err := q.push(entry{offset: offset}); err == nil {
				t.Fatalf("offset %d was taken twice", offset)
			}
			if !rapid.Bool().Draw(t, "look") {
				continue
			}
			for run := q.pop(25); len(run) > 0; run = q.pop(25) {
				if len(run) > 2 {
					t.Fatalf("a run of %d entries of 10 bytes is above the bound of 25 bytes", len(run))
				}
				for _, e := range run {
					got = append(got, e.offset)
				}
			}
			if ready := first + int64(len(got)); arrived[ready] {
				t.Fatalf("entry %d is here and its predecessors left, but it was held back", ready)
			}
		}
		for _, e := range q.pop(1 << 20) {
			got = append(got, e.offset)
		}
		if diff := cmp.Diff(offsets, got, cmp.Transformer("empty", func(s []int64) []int64 { return append([]int64{}, s...) })); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
		if q.gap() {
			t.Fatal("an empty queue reports a gap")
		}
	})
}

func TestQueueResetReturnsWhatWaitedInOrder(t *testing.T) {
	q := newQueue(5)
	for _, offset := range []int64{9, 7, 8} {
		if err := q.push(entry{offset: offset}); err != nil {
			t.Fatal(err)
		}
	}
	if !q.gap() {
		t.Error("entries 7 to 9 wait for 5 and no gap is seen")
	}
	var got []int64
	for _, e := range q.reset(2) {
		got = append(got, e.offset)
	}
	if diff := cmp.Diff([]int64{7, 8, 9}, got); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if err := q.push(entry{offset: 2}); err != nil {
		t.Errorf("the queue was moved to 2 and refuses it: %v", err)
	}
	if err := q.push(entry{offset: 1}); err == nil {
		t.Error("the queue was moved to 2 and takes 1")
	}
}
