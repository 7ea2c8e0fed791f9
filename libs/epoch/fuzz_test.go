package epoch

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

func encode(f *testing.F, row proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(row)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzHead gives the gate's decisions heads and liveness rows of any content.
func FuzzHead(f *testing.F) {
	head := &novav1.HeadRow{
		Id: "s", Epoch: 4, Covered: 9, Last: &novav1.LastSegment{Base: 5, End: 9, Epoch: 4, CleanRelease: true},
		Holder: &novav1.Holder{Epoch: 4, Star: "one", Chain: "one/inc/standard"}, Successor: &novav1.Successor{Star: "two"}, Claim: "c",
	}
	star := encode(f, &novav1.StarRow{Star: "one", Incarnation: "inc"})
	f.Add(encode(f, head), star, "inc", uint64(11), true)
	head.Last.CleanRelease, head.Opening = false, &novav1.Holder{Epoch: 5, Star: "two", Chain: "two/inc2/standard"}
	f.Add(encode(f, head), star, "inc2", uint64(9), false)
	f.Add(encode(f, &novav1.HeadRow{Deleted: true}), []byte{}, "", uint64(0), false)
	f.Fuzz(func(t *testing.T, headBytes, starBytes []byte, me string, end uint64, mark bool) {
		h, star := &novav1.HeadRow{}, &novav1.StarRow{}
		if proto.Unmarshal(headBytes, h) != nil || proto.Unmarshal(starBytes, star) != nil {
			return
		}
		before := proto.CloneOf(h)
		life := LifeOf(h.GetHolder(), me, star)
		if life == Living && h.GetHolder().GetChain() == "" {
			t.Fatal("a holder without a chain lives")
		}
		switch step := Plan(h, life); {
		case h.GetDeleted() != (step == Gone):
			t.Fatalf("deleted %v: step %v", h.GetDeleted(), step)
		case step == TakeNow && h.GetHolder() != nil && (!h.GetLast().GetCleanRelease() || h.GetLast().GetEnd() != h.GetCovered() || h.GetLast().GetEpoch() != h.GetHolder().GetEpoch()):
			t.Fatalf("taken without evidence: %v", h)
		case step == FenceAndScan && life != Dead:
			t.Fatal("a living holder is fenced")
		}
		holder := &novav1.Holder{Star: "me", Chain: "me/" + me + "/standard"}
		if h.GetEpoch() < math.MaxUint64 {
			taken := Take(h, holder, "claim")
			if taken.GetEpoch() != h.GetEpoch()+1 || taken.GetHolder().GetEpoch() != taken.GetEpoch() || taken.GetCovered() != h.GetCovered() || CleanlyReleased(taken) && h.GetLast().GetEpoch() <= h.GetEpoch() {
				t.Fatalf("Take makes %v of %v", taken, h)
			}
			begun := Begin(h, holder, "claim")
			if begun.GetEpoch() != h.GetEpoch()+1 || !proto.Equal(begun.GetHolder(), h.GetHolder()) || begun.GetOpening().GetEpoch() != begun.GetEpoch() || CleanlyReleased(begun) != CleanlyReleased(h) {
				t.Fatalf("Begin makes %v of %v", begun, h)
			}
		}
		if !proto.Equal(before, h) {
			t.Fatalf("a decision changed the head %v to %v", before, h)
		}
		if err := mayPublish(h, h.GetEpoch()); err == nil && end >= h.GetCovered() {
			p := Publication{Epoch: h.GetEpoch(), Mark: mark, Pass: holder}
			next := p.apply(proto.CloneOf(h), end, true)
			switch {
			case next.GetCovered() != end || next.GetHolder().GetEpoch() != h.GetEpoch() || next.GetOpening() != nil:
				t.Fatalf("a publication up to %d makes %v of %v", end, next, h)
			case mark && !CleanlyReleased(next), !p.stands(next):
				t.Fatalf("a publication does not stand in its own head %v", next)
			}
		}
	})
}

// foundIn reads batches from arbitrary bytes, 26 each: small steps, so that some of them are dense.
func foundIn(b []byte) (found []Batch) {
	for ; len(b) >= 26; b = b[26:] {
		found = append(found, Batch{
			Chain: []string{"one/a/standard", "one/b/standard", "two/c/express", ""}[b[0]%4], Slot: uint64(b[1]), Offset: binary.LittleEndian.Uint64(b[2:]),
			Base: binary.LittleEndian.Uint64(b[10:]), Count: binary.LittleEndian.Uint32(b[18:]), Length: uint32(b[22]), CRC: uint32(b[23]), Epoch: uint64(b[24]), Number: uint64(b[25]),
		})
	}
	return found
}

// FuzzEvidence gives the gate what a chain may hold of a stream, good or bad. What Dense lets through is
// dense from the head's covered on, and becomes a segment row that says the same after it was read again.
func FuzzEvidence(f *testing.F) {
	batch := func(base uint64, count uint32, epoch byte) []byte {
		b := binary.LittleEndian.AppendUint64([]byte{0, 3, 0, 0, 0, 0, 0, 0, 0, 0}, base)
		return append(binary.LittleEndian.AppendUint32(b, count), 8, 1, epoch, 0)
	}
	f.Add(append(append(batch(5, 2, 3), batch(7, 1, 3)...), batch(8, 4, 2)...), uint64(6), uint64(3))
	f.Add(append(batch(math.MaxUint64-1, 1, 3), batch(math.MaxUint64, 9, 3)...), uint64(math.MaxUint64-1), uint64(3))
	f.Add(append(batch(5, 0, 3), batch(6, 0, 3)...), uint64(5), uint64(3))
	f.Fuzz(func(t *testing.T, content []byte, covered, holder uint64) {
		dense, err := Dense(foundIn(content), covered, holder)
		if err != nil {
			if !errors.Is(err, ErrGap) {
				t.Fatalf("Dense = %v", err)
			}
			return
		}
		if len(dense) == 0 {
			return
		}
		rest := above(dense, covered)
		if len(rest) != len(dense) {
			t.Fatalf("%d of %d dense batches end above covered", len(rest), len(dense))
		}
		b, err := proto.Marshal(Publication{Epoch: holder}.segment(covered, dense))
		if err != nil {
			t.Fatal(err)
		}
		row := &novav1.SegmentRow{}
		if err := proto.Unmarshal(b, row); err != nil {
			t.Fatal(err)
		}
		next := covered
		for i, ref := range row.GetRefs() {
			of := dense[i]
			if ref.GetBase() != next || ref.GetCount() == 0 || of.Epoch != holder || row.GetChains()[ref.GetChain()] != of.Chain || ref.GetSlot() != of.Slot || ref.GetOffset() != of.Offset || ref.GetLength() != of.Length || ref.GetCrc32C() != of.CRC {
				t.Fatalf("ref %d is %v of %+v; sequence %d comes next", i, ref, of, next)
			}
			next += uint64(ref.GetCount())
		}
		if row.GetBase() != covered || row.GetEnd() != next || next <= covered {
			t.Fatalf("the segment is [%d, %d), its refs end at %d", row.GetBase(), row.GetEnd(), next)
		}
	})
}
