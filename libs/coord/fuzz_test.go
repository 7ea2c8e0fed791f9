package coord

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

// rowKinds are all kinds of rows, each with every field set.
func rowKinds() []proto.Message {
	nonce := bytes.Repeat([]byte{0xab}, 16)
	const chain, id, handoff = "one/01JZZZZZZZZZZZZZZZZZZZZZZZ/standard", "01JZZZZZZZZZZZZZZZZZZZZZZA", "01JZZZZZZZZZZZZZZZZZZZZZZB"
	holder := func(epoch uint64) *novav1.Holder {
		return &novav1.Holder{Epoch: epoch, Star: "one", Chain: chain, SinceUnixMs: 1_700_000_000_000, Coverage: novav1.Coverage_COVERAGE_RECOVERED, Handoff: handoff}
	}
	return []proto.Message{
		&novav1.StarRow{Nonce: nonce, Star: "one", Location: "rack-1", Address: "10.0.0.1:7000", Incarnation: id, Saturated: true, Draining: novav1.Draining_DRAINING_EXIT, Ineligible: "storage", Version: "v1", JoinedUnixMs: 1},
		&novav1.StatsRow{Nonce: nonce, Star: "one", Leaders: 2, AppendBytesPerSecond: 3.5, HotReadBytesPerSecond: 4.5, Saturation: .5, SaturationCpu: .25, SaturationNetwork: .125, SaturationMemory: .0625, SaturationBacklog: .5, Stranded: true, Drained: true, AtUnixMs: 5, Sessions: 6},
		&novav1.LeaseRow{Nonce: nonce, Star: "one", Incarnation: id, AcquiredUnixMs: 7, Settling: true},
		&novav1.RoleRow{Nonce: nonce, Owner: "one", SinceUnixMs: 8},
		&novav1.TombstoneRow{Nonce: nonce, Star: "one", AtUnixMs: 9, Why: "decommissioned"},
		&novav1.NameRow{Nonce: nonce, Name: "orders/größe", Id: id, Mode: novav1.Mode_MODE_FENCED, Class: novav1.Class_CLASS_EXPRESS, RetentionMs: 10, CreatedUnixMs: 11},
		&novav1.HeadRow{
			Nonce: nonce, Id: id, Deleted: true, Epoch: 12, Opening: holder(12), Holder: holder(11), Covered: 300,
			Last: &novav1.LastSegment{Base: 200, End: 300, Epoch: 11, CleanRelease: true}, Claim: "claim",
			Successor: &novav1.Successor{Star: "two", Handoff: handoff, UntilUnixMs: 13}, Compacted: 14, Trim: 15, Mode: novav1.Mode_MODE_FENCED, Class: novav1.Class_CLASS_EXPRESS,
		},
		&novav1.SegmentRow{
			Nonce: nonce, Base: 200, End: 300, Epoch: 11, CleanRelease: true, Chains: []string{chain},
			Refs:      []*novav1.Ref{{Chain: 0, Slot: 16, Offset: 1 << 33, Length: 17, Base: 200, Count: 100, Crc32C: 0xdeadbeef}},
			Producers: []*novav1.ProducerState{{Producer: "p", Batches: []*novav1.ProducerBatch{{Number: 18, Base: 200, Count: 100}}}}, Class: novav1.Class_CLASS_STANDARD,
		},
		&novav1.EpochRow{Nonce: nonce, Epoch: 11, Star: "one", Chain: chain, OpenedUnixMs: 19, Coverage: novav1.Coverage_COVERAGE_EVIDENCE, Handoff: handoff, Trigger: "memory"},
		&novav1.ChainRow{Nonce: nonce, Chain: chain, Class: novav1.Class_CLASS_STANDARD, State: novav1.ChainState_CHAIN_STATE_SEALED, Floor: 20, Seal: 21},
		&novav1.CopyRow{Nonce: nonce, Identity: id, AdmittedUnixMs: 22},
	}
}

// FuzzDecodeRow reads any bytes as each kind of row. What is read and may be written again is written with
// a nonce that signed knows, and reads as it was; what names a newer format is refused as that, whatever
// else it holds.
func FuzzDecodeRow(f *testing.F) {
	kinds := rowKinds()
	for i, row := range kinds {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(row)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Add(uint8(6), protowire.AppendVarint(protowire.AppendTag(nil, formatField, protowire.VarintType), 2))
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		row := proto.Clone(kinds[int(kind)%len(kinds)])
		proto.Reset(row)
		err := Decode("/row", b, row)
		if newer := formatOf(b) > rowFormat; newer != errors.Is(err, ErrNewer) {
			t.Fatalf("a row of format %d: %v", formatOf(b), err)
		}
		newer := protowire.AppendVarint(protowire.AppendTag(bytes.Clone(b), formatField, protowire.VarintType), rowFormat+1)
		fresh := row.ProtoReflect().New().Interface()
		if nerr := Decode("/row", newer, fresh); err == nil && !errors.Is(nerr, ErrNewer) {
			t.Fatalf("made newer it reads: %v", nerr)
		}
		if err != nil {
			return
		}
		read := proto.Clone(row)
		value, nonce, err := sign(row)
		if err != nil {
			if len(b) < maxRowBytes/2 {
				t.Fatalf("a row that was read is not written: %v", err)
			}
			return
		}
		if !signed(row, value, nonce) {
			t.Fatal("a row is not known by its nonce")
		}
		again := row.ProtoReflect().New().Interface()
		if err := Decode("/row", value, again); err != nil {
			t.Fatalf("what was written does not read: %v", err)
		}
		for _, m := range []proto.Message{read, again} {
			m.ProtoReflect().Clear(m.ProtoReflect().Descriptor().Fields().ByName("nonce"))
		}
		if !proto.Equal(read, again) {
			a, _ := proto.MarshalOptions{Deterministic: true}.Marshal(read)
			b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(again)
			if !bytes.Equal(a, b) { // a NaN is not equal to itself
				t.Fatalf("read %v, written and read %v", read, again)
			}
		}
	})
}
