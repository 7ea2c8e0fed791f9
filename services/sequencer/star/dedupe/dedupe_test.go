package dedupe_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"nova.internal/services/sequencer/star/dedupe"
)

func TestJudge(t *testing.T) {
	var table dedupe.Table
	want := func(number uint64, v dedupe.Verdict, base, expected uint64) {
		t.Helper()
		got, original, e := table.Judge("p", number)
		if got != v || original.Base != base || e != expected {
			t.Errorf("Judge(%d) = %v at %d, expected %d; want %v at %d, %d", number, got, original.Base, e, v, base, expected)
		}
	}
	want(1, dedupe.Next, 0, 1)
	want(2, dedupe.OutOfOrder, 0, 1)
	table.Accept("p", dedupe.Batch{Number: 1, Base: 10, Count: 2})
	want(1, dedupe.Undecided, 10, 2)
	table.Commit("p", dedupe.Batch{Number: 1, Base: 10, Count: 2})
	want(1, dedupe.Repeat, 10, 2)
	table.Accept("p", dedupe.Batch{Number: 2, Base: 12, Count: 1})
	want(4, dedupe.OutOfOrder, 0, 3)
	table.Withdraw("p", 2)
	want(2, dedupe.Next, 0, 2)
}

// TestASegmentsTableAndTheBatchesAboveItRestoreTheTable: whatever was committed, the table that a
// segment carries plus a replay of the batches above it judges every remembered number as before.
func TestASegmentsTableAndTheBatchesAboveItRestoreTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before dedupe.Table
		type placed struct {
			producer string
			batch    dedupe.Batch
		}
		var log []placed
		next := map[string]uint64{}
		base := uint64(0)
		for range rapid.IntRange(0, 40).Draw(t, "batches") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "producer")
			next[name]++
			b := dedupe.Batch{Number: next[name], Base: base, Count: rapid.Uint32Range(1, 3).Draw(t, "count")}
			base += uint64(b.Count)
			before.Accept(name, b)
			log = append(log, placed{name, b})
		}
		for _, p := range log {
			before.Commit(p.producer, p.batch)
		}
		cut := 0
		if len(log) > 0 {
			cut = rapid.IntRange(0, len(log)).Draw(t, "cut")
		}
		// The segment was written when the batches up to the cut were committed.
		var then, after dedupe.Table
		for _, p := range log[:cut] {
			then.Commit(p.producer, p.batch)
		}
		end := uint64(0)
		if cut > 0 {
			end = log[cut-1].batch.Base + uint64(log[cut-1].batch.Count)
		}
		after.Load(then.Snapshot(end))
		for _, p := range log[cut:] {
			after.Commit(p.producer, p.batch)
		}
		if diff := cmp.Diff(before.Snapshot(base), after.Snapshot(base), protocmp.Transform()); diff != "" {
			t.Fatalf("restored table (-want +got):\n%s", diff)
		}
	})
}

func TestTheTableForgetsTheLeastRecentButNoneThatIsAttached(t *testing.T) {
	var table dedupe.Table
	table.Attach("kept")
	table.Commit("kept", dedupe.Batch{Number: 1, Base: 0, Count: 1})
	for i := range uint64(1000) {
		table.Commit(fmt.Sprint(i), dedupe.Batch{Number: 1, Base: i + 1, Count: 1})
	}
	if got := len(table.Snapshot(2000)); got != dedupe.Producers {
		t.Errorf("the snapshot carries %d producers, want %d", got, dedupe.Producers)
	}
	if v, _, _ := table.Judge("kept", 1); v != dedupe.Repeat {
		t.Errorf("the attached producer was forgotten: %v", v)
	}
	if v, _, _ := table.Judge("0", 2); v != dedupe.OutOfOrder {
		t.Errorf("the least recent producer is still known: %v", v)
	}
}
