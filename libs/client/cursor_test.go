package client

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// stored makes the batch of count records at base.
func stored(base uint64, count int) *novav1.ReadBatch {
	var b []byte
	for i := range count {
		b = batch.Append(b, batch.Record{Value: []byte{byte(base) + byte(i)}})
	}
	return &novav1.ReadBatch{Base: base, Count: uint32(count), Crc32C: batch.CRC(b), Records: b}
}

func taken(c *cursor) (sequences []uint64) {
	for r, ok := c.take(); ok; r, ok = c.take() {
		sequences = append(sequences, r.Sequence)
	}
	return sequences
}

func TestCursorFindsTheNewestRecord(t *testing.T) {
	tests := map[string]struct {
		answers []*novav1.ReadResponse
		want    uint64
	}{
		"at the end of the first batch":      {[]*novav1.ReadResponse{{Batches: []*novav1.ReadBatch{stored(4, 3)}, End: 7}}, 6},
		"the stream grew meanwhile":          {[]*novav1.ReadResponse{{Batches: []*novav1.ReadBatch{stored(4, 3), stored(7, 2)}, End: 9}}, 6},
		"the stream was empty, then a batch": {[]*novav1.ReadResponse{{CaughtUp: true}, {Batches: []*novav1.ReadBatch{stored(0, 3)}, End: 3}}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &cursor{stream: "s", last: true}
			for _, m := range tc.answers {
				if err := c.accept(m); err != nil {
					t.Fatal(err)
				}
			}
			if got := taken(c); len(got) == 0 || got[0] != tc.want {
				t.Errorf("took %v, want %d first", got, tc.want)
			}
		})
	}
}

func TestCursorRefusesABatchThatOverlapsWithinACall(t *testing.T) {
	c := &cursor{stream: "s"}
	var corrupt *CorruptError
	err := c.accept(&novav1.ReadResponse{Batches: []*novav1.ReadBatch{stored(0, 3), stored(2, 3)}})
	if !errors.As(err, &corrupt) {
		t.Errorf("accepted with %v", err)
	}
	if got := taken(c); len(got) != 3 {
		t.Errorf("took %v", got)
	}
}

// Over any cuts and reopens a cursor gives out exactly the records asked for.
func TestCursorIsDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log []*novav1.ReadBatch
		end := uint64(0)
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, 5), 1, 20).Draw(t, "counts") {
			log = append(log, stored(end, n))
			end += uint64(n)
		}
		from := rapid.Uint64Range(0, end).Draw(t, "from")
		limit := rapid.Uint64Range(0, end+2).Draw(t, "limit")
		c := &cursor{stream: "s", next: from, limit: limit}
		var got []uint64
		for !c.full && !c.atEnd {
			cut := rapid.IntRange(0, 4).Draw(t, "batches in this call")
			for _, b := range log {
				if b.GetBase()+uint64(b.GetCount()) <= c.next {
					continue
				}
				if cut--; cut < 0 || c.full {
					break
				}
				if err := c.accept(&novav1.ReadResponse{Batches: []*novav1.ReadBatch{b}, End: end}); err != nil {
					t.Fatal(err)
				}
			}
			got = append(got, taken(c)...)
			if cut > 0 {
				if err := c.accept(&novav1.ReadResponse{End: end, CaughtUp: true}); err != nil {
					t.Fatal(err)
				}
			} else {
				c.reopened()
			}
		}
		want := end - from
		if limit > 0 {
			want = min(want, limit)
		}
		if uint64(len(got)) != want {
			t.Fatalf("gave out %d records, want %d", len(got), want)
		}
		for i, s := range got {
			if s != from+uint64(i) {
				t.Fatalf("gave out %v from %d", got, from)
			}
		}
	})
}
