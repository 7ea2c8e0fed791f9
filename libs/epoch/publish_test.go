package epoch

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// published walks the segments that the head makes visible, from 0 to covered, and returns where each
// batch lies. Rows that no head has published are never met, because the walk steps from end to end.
func published(t *rapid.T, rows *memRows, head *novav1.HeadRow) []*novav1.Ref {
	var refs []*novav1.Ref
	for next := uint64(0); next < head.GetCovered(); {
		row := &novav1.SegmentRow{}
		if _, err := rows.Get(t.Context(), coord.SegmentKey("s", next), row); err != nil {
			t.Fatalf("no segment at %d below covered %d: %v", next, head.GetCovered(), err)
		}
		if row.GetBase() != next || row.GetEnd() <= next || row.GetEnd() > head.GetCovered() {
			t.Fatalf("segment [%d, %d) at %d, covered %d", row.GetBase(), row.GetEnd(), next, head.GetCovered())
		}
		refs = append(refs, row.GetRefs()...)
		next = row.GetEnd()
	}
	return refs
}

// TestPublicationsSurviveLostAndLateAnswers lets two leaderships, one after the other, publish through
// writes that are lost, unanswered or late. Whatever happens, the head never shows a hole, a batch twice,
// or a batch of the first leadership above what the second one found.
func TestPublicationsSurviveLostAndLateAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := newMemRows()
		faulty := func() fault {
			return rapid.SampledFrom([]fault{none, none, none, lost, unanswered, delayed}).Draw(t, "fault")
		}
		var log []Batch // what the stream's chains hold, in order
		add := func(e uint64) {
			base := uint64(0)
			if n := len(log); n > 0 {
				base = log[n-1].End()
			}
			log = append(log, Batch{Chain: "c", Slot: uint64(len(log)), Base: base, Count: rapid.Uint32Range(1, 3).Draw(t, "count"), Epoch: e})
		}
		first := NewGuard(rows, "s")
		if _, err := first.Update(t.Context(), func(h *novav1.HeadRow) (*novav1.HeadRow, error) {
			return Take(h, &novav1.Holder{Star: "one", Chain: "c"}, ""), nil
		}); err != nil {
			t.Fatal(err)
		}

		rows.fault = faulty
		for range rapid.IntRange(0, 8).Draw(t, "publications") {
			for range rapid.IntRange(0, 4).Draw(t, "batches") {
				add(1)
			}
			_, err := first.Publish(t.Context(), Publication{Epoch: 1, Batches: log, Mark: rapid.Bool().Draw(t, "mark")})
			if err != nil && !errors.Is(err, coord.ErrUnknown) {
				t.Fatalf("publish: %v", err)
			}
			if rapid.Bool().Draw(t, "land") {
				rows.land()
			}
		}

		// The second leadership: the epoch first, then the evidence, then the records.
		rows.fault = nil
		second := NewGuard(rows, "s")
		head, err := second.Update(t.Context(), func(h *novav1.HeadRow) (*novav1.HeadRow, error) {
			return Begin(h, &novav1.Holder{Star: "two", Chain: "d"}, ""), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for len(rows.late) > 0 && rapid.Bool().Draw(t, "land after the epoch") {
			rows.land()
		}
		end := uint64(0)
		if n := len(log); n > 0 {
			end = log[n-1].End()
		}
		more := append(log[:len(log):len(log)], Batch{Chain: "c", Base: end, Count: 1, Epoch: 1})
		if _, err := first.Publish(t.Context(), Publication{Epoch: 1, Batches: more, Mark: true}); !errors.Is(err, ErrDeposed) {
			t.Fatalf("the first leadership published at epoch %d after the second took it: %v", 1, err)
		}
		dense, err := Dense(log, head.GetCovered(), head.GetHolder().GetEpoch())
		if err != nil {
			t.Fatal(err)
		}
		rows.fault = faulty
		me := &novav1.Holder{Star: "two", Chain: "d"}
		for tries := 0; ; tries++ {
			if tries > 50 {
				rows.fault = nil
			}
			head, err = second.Publish(t.Context(), Publication{Epoch: 2, Batches: dense, Pass: me})
			if err == nil {
				break
			}
			if !errors.Is(err, coord.ErrUnknown) {
				t.Fatalf("pass the gate: %v", err)
			}
			if rapid.Bool().Draw(t, "land") {
				rows.land()
			}
		}
		rows.fault = nil
		for len(rows.late) > 0 {
			rows.land()
		}
		stands := &novav1.HeadRow{}
		if _, err := rows.Get(t.Context(), coord.HeadKey("s"), stands); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(head, stands) {
			t.Fatalf("a late write changed the head after the gate passed:\n%v\n%v", head, stands)
		}
		if stands.GetHolder().GetEpoch() != 2 || CleanlyReleased(stands) {
			t.Fatalf("head after the gate: %v", stands)
		}
		refs := published(t, rows, stands)
		if len(refs) != len(log) {
			t.Fatalf("%d batches are published, %d were written", len(refs), len(log))
		}
		for i, ref := range refs {
			if ref.GetBase() != log[i].Base || ref.GetCount() != log[i].Count || ref.GetSlot() != log[i].Slot {
				t.Fatalf("batch %d is published as %v, written as %+v", i, ref, log[i])
			}
		}
	})
}

func TestTheMarkCountsOnlyInTheHead(t *testing.T) {
	holder := &novav1.Holder{Epoch: 4}
	tests := map[string]struct {
		head  *novav1.HeadRow
		clean bool
	}{
		"the holder's own mark at covered":     {&novav1.HeadRow{Holder: holder, Covered: 9, Last: &novav1.LastSegment{End: 9, Epoch: 4, CleanRelease: true}}, true},
		"a mark of an older epoch":             {&novav1.HeadRow{Holder: holder, Covered: 9, Last: &novav1.LastSegment{End: 9, Epoch: 3, CleanRelease: true}}, false},
		"a mark below covered":                 {&novav1.HeadRow{Holder: holder, Covered: 9, Last: &novav1.LastSegment{End: 8, Epoch: 4, CleanRelease: true}}, false},
		"no mark":                              {&novav1.HeadRow{Holder: holder, Covered: 9, Last: &novav1.LastSegment{End: 9, Epoch: 4}}, false},
		"a mark and nobody who could leave it": {&novav1.HeadRow{Covered: 9, Last: &novav1.LastSegment{End: 9, CleanRelease: true}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := CleanlyReleased(tc.head); got != tc.clean {
				t.Errorf("CleanlyReleased = %v, want %v", got, tc.clean)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	unmarked := &novav1.HeadRow{Epoch: 4, Holder: &novav1.Holder{Epoch: 4}, Covered: 9}
	marked := &novav1.HeadRow{Epoch: 4, Holder: &novav1.Holder{Epoch: 4}, Covered: 9, Last: &novav1.LastSegment{End: 9, Epoch: 4, CleanRelease: true}}
	tests := map[string]struct {
		head *novav1.HeadRow
		life Life
		want Step
	}{
		"deleted":                            {&novav1.HeadRow{Deleted: true}, Dead, Gone},
		"nobody ever led":                    {&novav1.HeadRow{}, Dead, TakeNow},
		"a mark needs no scan, dead or not":  {marked, Living, TakeNow},
		"no mark and a living holder: ask":   {unmarked, Living, AskHolder},
		"no mark and it was me: own index":   {unmarked, Oneself, ScanOwn},
		"no mark and nobody there: fence":    {unmarked, Dead, FenceAndScan},
		"an opener that never passed is air": {&novav1.HeadRow{Epoch: 5, Opening: &novav1.Holder{Epoch: 5}}, Living, TakeNow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Plan(tc.head, tc.life); got != tc.want {
				t.Errorf("Plan = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDenseRefusesAGap(t *testing.T) {
	batch := func(base uint64, count uint32, e uint64) Batch { return Batch{Base: base, Count: count, Epoch: e} }
	tests := map[string]struct {
		found   []Batch
		want    int
		refused bool
	}{
		"nothing":                          {nil, 0, false},
		"in any order":                     {[]Batch{batch(12, 1, 3), batch(10, 2, 3)}, 2, false},
		"what is covered is skipped":       {[]Batch{batch(8, 2, 3), batch(10, 1, 3)}, 1, false},
		"other epochs never count":         {[]Batch{batch(10, 1, 2), batch(10, 1, 3), batch(11, 1, 4)}, 1, false},
		"a hole at covered":                {[]Batch{batch(11, 1, 3)}, 0, true},
		"a hole behind":                    {[]Batch{batch(10, 1, 3), batch(12, 1, 3)}, 0, true},
		"one sequence twice is no density": {[]Batch{batch(10, 2, 3), batch(11, 2, 3)}, 0, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Dense(tc.found, 10, 3)
			if errors.Is(err, ErrGap) != tc.refused || len(got) != tc.want {
				t.Errorf("Dense = %v, %v", got, err)
			}
		})
	}
}
