package api

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
)

func records() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 64),
		rapid.Map(rapid.IntRange(sharedBytes-2, 3*sharedBytes), func(n int) []byte { return bytes.Repeat([]byte("record"), n)[:n] }),
	)
}

func messages() *rapid.Generator[proto.Message] {
	number, small := rapid.Uint64(), rapid.Uint32()
	produce := rapid.Custom(func(t *rapid.T) proto.Message {
		return &novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{
			Number: number.Draw(t, "number"), Count: small.Draw(t, "count"), Crc32C: small.Draw(t, "crc"), Records: records().Draw(t, "records"),
		}}}
	})
	open := rapid.Custom(func(t *rapid.T) proto.Message {
		return &novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: &novav1.Open{Name: rapid.StringN(0, 9000, 9000).Draw(t, "name"), Reopen: true}}}
	})
	read := rapid.Custom(func(t *rapid.T) proto.Message {
		m := &novav1.ReadResponse{End: number.Draw(t, "end"), CaughtUp: rapid.Bool().Draw(t, "caught up")}
		for range rapid.IntRange(0, 5).Draw(t, "batches") {
			m.Batches = append(m.Batches, &novav1.ReadBatch{
				Base: number.Draw(t, "base"), Count: small.Draw(t, "count"), Crc32C: small.Draw(t, "crc"), Records: records().Draw(t, "records"),
			})
		}
		return m
	})
	known := rapid.OneOf(produce, open, read)
	return rapid.Custom(func(t *rapid.T) proto.Message {
		m := known.Draw(t, "message")
		if rapid.IntRange(0, 9).Draw(t, "newer") == 0 {
			b := protowire.AppendTag(nil, 900, protowire.VarintType)
			m.ProtoReflect().SetUnknown(protowire.AppendVarint(b, number.Draw(t, "unknown")))
		}
		return m
	})
}

// frames cuts b as a transport does.
func frames(t *rapid.T, b []byte) (s mem.BufferSlice) {
	for len(b) > 0 {
		n := rapid.IntRange(1, len(b)).Draw(t, "frame")
		s, b = append(s, mem.SliceBuffer(b[:n])), b[n:]
	}
	return s
}

// The codec is protobuf: it writes the same bytes, and reads what protobuf wrote.
func TestTheCodecIsProtobuf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages().Draw(t, "message")
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec{}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Materialize()); d != "" {
			t.Fatalf("on the wire (-protobuf +codec):\n%s", d)
		}
		back := m.ProtoReflect().New().Interface()
		if err := (codec{}).Unmarshal(frames(t, want), back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, back, protocmp.Transform()); d != "" {
			t.Fatalf("read back (-sent +got):\n%s", d)
		}
	})
}

// A large batch goes out from where its owner holds it, and what was received is nobody else's memory:
// the transport takes its frames back as soon as Unmarshal has returned.
func TestRecordsAreSharedOnlyWithTheirOwner(t *testing.T) {
	mine := bytes.Repeat([]byte("x"), 2*sharedBytes)
	for _, m := range []proto.Message{
		&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: 1, Records: mine}}},
		&novav1.ReadResponse{Batches: []*novav1.ReadBatch{{Records: mine}}, End: 7},
	} {
		out, err := codec{}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if at := &out[1].ReadOnlyData()[0]; at != &mine[0] {
			t.Errorf("%T: the records were copied before they were sent", m)
		}
		frame := out.Materialize()
		back := m.ProtoReflect().New().Interface()
		if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(frame)}, back); err != nil {
			t.Fatal(err)
		}
		clear(frame)
		if d := cmp.Diff(m, back, protocmp.Transform()); d != "" {
			t.Errorf("%T changed with the transport's frame:\n%s", m, d)
		}
	}
}

// parseEnvelope and appendHeader know these fields by number.
func TestTheEnvelopesAreAsWireGoThinks(t *testing.T) {
	type field struct {
		Number protoreflect.FieldNumber
		Kind   protoreflect.Kind
		List   bool
	}
	fields := func(m proto.Message) (out []field) {
		d := m.ProtoReflect().Descriptor().Fields()
		for i := range d.Len() {
			out = append(out, field{d.Get(i).Number(), d.Get(i).Kind(), d.Get(i).IsList()})
		}
		return out
	}
	envelope := []field{{1, protoreflect.Uint64Kind, false}, {2, protoreflect.Uint32Kind, false}, {3, protoreflect.Uint32Kind, false}, {4, protoreflect.BytesKind, false}}
	for _, c := range []struct {
		m    proto.Message
		want []field
	}{
		{&novav1.Append{}, envelope},
		{&novav1.ReadBatch{}, envelope},
		{&novav1.ReadResponse{}, []field{{batchesField, protoreflect.MessageKind, true}, {endField, protoreflect.Uint64Kind, false}, {caughtUpField, protoreflect.BoolKind, false}}},
	} {
		if d := cmp.Diff(c.want, fields(c.m)); d != "" {
			t.Errorf("%T has other fields; wire.go leaves them out (-wire.go +proto):\n%s", c.m, d)
		}
	}
	if n := (&novav1.ProduceRequest{}).ProtoReflect().Descriptor().Fields().ByName("append").Number(); n != appendField {
		t.Errorf("ProduceRequest.append is field %d; wire.go has %d", n, appendField)
	}
}

// Whatever arrives, the codec reads it as protobuf does, or refuses it when protobuf does.
func FuzzUnmarshal(f *testing.F) {
	pad := bytes.Repeat([]byte{1}, sharedBytes)
	for _, m := range []proto.Message{
		&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: 9, Count: 1 << 31, Crc32C: 3, Records: pad}}},
		&novav1.ReadResponse{Batches: []*novav1.ReadBatch{{Base: 1, Records: pad}, {Base: 2, Count: 3}}, End: 1 << 60, CaughtUp: true},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...)) // protobuf merges what comes twice
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range []struct {
			want, got proto.Message
			read      func([]byte, proto.Message) error
		}{
			{&novav1.ProduceRequest{}, &novav1.ProduceRequest{}, func(b []byte, m proto.Message) error { return unmarshalProduce(b, m.(*novav1.ProduceRequest)) }},
			{&novav1.ReadResponse{}, &novav1.ReadResponse{}, func(b []byte, m proto.Message) error { return unmarshalRead(b, m.(*novav1.ReadResponse)) }},
		} {
			wantErr, gotErr := proto.Unmarshal(b, c.want), c.read(b, c.got)
			if (wantErr == nil) != (gotErr == nil) {
				t.Fatalf("protobuf says %v, the codec %v", wantErr, gotErr)
			}
			if wantErr == nil && !proto.Equal(c.want, c.got) {
				t.Fatalf("protobuf reads %v, the codec %v", c.want, c.got)
			}
		}
	})
}
