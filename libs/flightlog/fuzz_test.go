package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

func FuzzDecodeIdentity(f *testing.F) {
	f.Add([]byte(`{"copy":"01JZZZZZZZZZZZZZZZZZZZZZZZ"}`))
	f.Add([]byte(`{"format":1,"copy":"01JZZZZZZZZZZZZZZZZZZZZZZZ"}`))
	f.Add([]byte(`{"format":2,"copies":["01JZZZZZZZZZZZZZZZZZZZZZZZ"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeIdentity(b)
		if err != nil {
			if id != "" {
				t.Fatalf("%q is refused (%v) and still names %q", b, err, id)
			}
			return
		}
		if _, err := ulid.ParseStrict(id); err != nil {
			t.Fatalf("%q reads as %q: %v", b, id, err)
		}
		again, err := encodeIdentity(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeIdentity(again); got != id || err != nil {
			t.Fatalf("%q reads as %q, which is written as %q and reads as %q, %v", b, id, again, got, err)
		}
	})
}

// batchesOf makes batches of arbitrary bytes: each is a header of 45 bytes, then its producer and records.
// They are what a leadership could hand over, good or bad.
func batchesOf(b []byte) (batches []Batch) {
	for len(b) >= 46 {
		var id ulid.ULID
		copy(id[:], b)
		id[0] &= 0x7f // a ULID of 26 characters holds 128 bits at most
		producer, records := int(b[44]), int(b[45])
		batch := Batch{
			Stream: id.String(), Epoch: binary.LittleEndian.Uint64(b[16:]), Base: binary.LittleEndian.Uint64(b[24:]),
			Count: binary.LittleEndian.Uint32(b[32:]), Number: binary.LittleEndian.Uint64(b[36:]),
		}
		b = b[46:]
		producer = min(producer, len(b))
		batch.Producer, b = string(b[:producer]), b[producer:]
		records = min(records, len(b))
		batch.Records, b = b[:records:records], b[records:]
		batch.CRC = crc32.Checksum(batch.Records, castagnoli)
		batches = append(batches, batch)
	}
	return batches
}

// FuzzFlightRoundTrip builds a flight and reads it again; and no one changed byte of it passes.
func FuzzFlightRoundTrip(f *testing.F) {
	f.Add("one/01JZZZZZZZZZZZZZZZZZZZZZZZ/standard", byte(1), uint64(3), uint64(2), bytes.Repeat([]byte{1, 2, 3, 4, 5}, 40), uint(9), byte(1))
	f.Add("", byte(0), uint64(0), uint64(0), []byte{}, uint(4), byte(2))
	f.Fuzz(func(t *testing.T, chain string, class byte, slot, committed uint64, content []byte, at uint, flip byte) {
		if len(chain) > maxChainBytes {
			return // ParseChain and the keys of a copy refuse it
		}
		o := &openFlight{}
		for _, b := range batchesOf(content) {
			before := *o
			if err := o.add(b); err != nil {
				if !errors.Is(err, ErrBadBatch) {
					t.Fatalf("add = %v", err)
				}
				if len(o.batches) != len(before.batches) || len(o.table) != len(before.table) || o.bytes != before.bytes {
					t.Fatalf("a batch that was refused (%v) changed the flight", err)
				}
			}
		}
		h := Header{Chain: chain, Class: novav1.Class(class), Slot: slot, Committed: committed, Nonce: [16]byte{flip, 1}}
		sealed := o.seal(h, time.Time{})
		object := bytes.Join(sealed.parts, nil)
		p, err := Verify(object)
		if err != nil {
			t.Fatalf("what was sealed does not verify: %v", err)
		}
		if diff := cmp.Diff(&Prefix{Header: h, Bytes: len(sealed.parts[0]), Batches: sealed.refs}, p, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("prefix (-want +got):\n%s", diff)
		}
		if n, err := prefixBytes(object[:flightFixed]); err != nil || n != p.Bytes {
			t.Fatalf("the fixed part says that the prefix has %d bytes, %v; it has %d", n, err, p.Bytes)
		}
		for i, r := range p.Batches {
			records, err := cut(object, 0, []Piece{{Offset: r.Offset, Length: r.Length, CRC: r.CRC}})
			if err != nil || !bytes.Equal(records[0], sealed.batches[i].Records) {
				t.Fatalf("batch %d is cut as %q, %v", i, records, err)
			}
		}
		if kind, err := Classify(object[:min(len(object), MaxPoisonBytes+1)], chain, slot); kind != KindFlight || err != nil {
			t.Fatalf("a flight counts as %v, %v", kind, err)
		}
		if flip != 0 {
			object[at%uint(len(object))] ^= flip
			if _, err := Verify(object); err == nil {
				t.Fatalf("a flight with byte %d changed passes", at%uint(len(object)))
			}
		}
	})
}

// FuzzSegmentRow reads a segment row of any content the way a scan does: what checkRow lets through is
// cut into groups that cover its refs in order, each read within one flight and within bounds.
func FuzzSegmentRow(f *testing.F) {
	row := &novav1.SegmentRow{Base: 5, End: 9, Epoch: 2, Chains: []string{"one/01JZZZZZZZZZZZZZZZZZZZZZZZ/standard", "two/01JZZZZZZZZZZZZZZZZZZZZZZZ/express"}, Refs: []*novav1.Ref{
		{Slot: 1, Offset: 100, Length: 10, Base: 5, Count: 1}, {Slot: 1, Offset: 110, Length: 10, Base: 6, Count: 1}, {Chain: 1, Slot: 1, Offset: 9, Length: 4, Base: 7, Count: 2},
	}}
	seed, err := proto.Marshal(row)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, uint64(6), uint64(8))
	f.Add(seed, uint64(5), uint64(9))
	f.Fuzz(func(t *testing.T, b []byte, seq, to uint64) {
		row := &novav1.SegmentRow{}
		if proto.Unmarshal(b, row) != nil {
			return
		}
		for _, chain := range row.GetChains() {
			if star, incarnation, class, err := ParseChain(chain); err == nil && ChainName(star, incarnation, class) != chain {
				t.Fatalf("chain %q reads as %q, %q, %v", chain, star, incarnation, class)
			}
		}
		if checkRow(row, seq) != nil {
			return
		}
		refs := row.GetRefs()
		for endOf(refs[0]) <= seq { // as scanRefs skips; a row that was checked holds seq
			refs = refs[1:]
		}
		next := refs[0].GetBase()
		for len(refs) > 0 && refs[0].GetBase() < to {
			n := groupOf(refs, to)
			if n < 1 || n > len(refs) {
				t.Fatalf("a group of %d of %d refs", n, len(refs))
			}
			first := refs[0]
			for _, ref := range refs[:n] {
				if ref.GetBase() != next || endOf(ref) <= ref.GetBase() || ref.GetChain() != first.GetChain() || ref.GetSlot() != first.GetSlot() {
					t.Fatalf("ref %v in the group of %v, %d comes next", ref, first, next)
				}
				if n > 1 && (ref.GetOffset() < first.GetOffset() || ref.GetOffset()+uint64(ref.GetLength())-first.GetOffset() > pieceBytes) {
					t.Fatalf("ref %v lies too far from %v for one read", ref, first)
				}
				if key := SlotKey(row.GetChains()[ref.GetChain()], ref.GetSlot()); checkKey(key) == nil {
					if slot, err := slotOf(key); err != nil || slot != ref.GetSlot() {
						t.Fatalf("slot %d of key %s reads as %d, %v", ref.GetSlot(), key, slot, err)
					}
				}
				next = endOf(ref)
			}
			refs = refs[n:]
		}
		if next < min(to, row.GetEnd()) {
			t.Fatalf("the groups end at %d of [%d, %d) up to %d", next, row.GetBase(), row.GetEnd(), to)
		}
	})
}
