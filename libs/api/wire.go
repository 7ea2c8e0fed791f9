package api

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

// sharedBytes is from where on a message's records are worth the trouble of not copying them.
const sharedBytes = 4 << 10

// envelope is what Append and ReadBatch have in common: three numbers in fields 1 to 3 and records in
// field 4. The descriptors are held against this by a test.
type envelope struct {
	first      uint64 // number, or base
	count, crc uint32
	records    []byte
}

// bytes is the envelope's length on the wire.
func (e envelope) bytes() int { return len(e.appendHeader(make([]byte, 0, 40))) + len(e.records) }

// appendHeader appends all of the envelope but the records' own bytes, as protobuf does: a zero is left out.
func (e envelope) appendHeader(b []byte) []byte {
	for i, v := range []uint64{e.first, uint64(e.count), uint64(e.crc)} {
		if v != 0 {
			b = protowire.AppendTag(b, protowire.Number(i+1), protowire.VarintType)
			b = protowire.AppendVarint(b, v)
		}
	}
	if len(e.records) > 0 {
		b = protowire.AppendTag(b, 4, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(len(e.records)))
	}
	return b
}

// parseEnvelope reads an envelope whose records share b. It says false of anything unusual (a field that
// it does not know, or one that comes twice), which is then protobuf's to read.
func parseEnvelope(b []byte) (e envelope, ok bool) {
	var last protowire.Number
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 || field <= last || field > 4 || (kind == protowire.BytesType) != (field == 4) || field < 4 && kind != protowire.VarintType {
			return envelope{}, false
		}
		b, last = b[n:], field
		if field == 4 {
			if e.records, n = protowire.ConsumeBytes(b); n < 0 {
				return envelope{}, false
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return envelope{}, false
		}
		switch b = b[n:]; field {
		case 1:
			e.first = v
		case 2:
			e.count = uint32(v)
		case 3:
			e.crc = uint32(v)
		}
	}
	e.records = e.records[:len(e.records):len(e.records)]
	return e, true
}

const appendField = 2 // of ProduceRequest

// marshalProduce lays out an Append whose records are sent from where they are, or returns nil: the
// message is something else, or small, or carries fields of a newer version.
func marshalProduce(m *novav1.ProduceRequest) mem.BufferSlice {
	a := m.GetAppend()
	if len(a.GetRecords()) < sharedBytes || unknown(m) || unknown(a) {
		return nil
	}
	e := envelope{a.GetNumber(), a.GetCount(), a.GetCrc32C(), a.GetRecords()}
	head := protowire.AppendTag(make([]byte, 0, 48), appendField, protowire.BytesType)
	head = e.appendHeader(protowire.AppendVarint(head, uint64(e.bytes())))
	return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(e.records)}
}

// unmarshalProduce reads a request whose records, if it is an Append, share b.
func unmarshalProduce(b []byte, m *novav1.ProduceRequest) error {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || field != appendField || kind != protowire.BytesType {
		return proto.Unmarshal(b, m)
	}
	inner, size := protowire.ConsumeBytes(b[n:])
	if size != len(b)-n {
		return proto.Unmarshal(b, m)
	}
	e, ok := parseEnvelope(inner)
	if !ok {
		return proto.Unmarshal(b, m)
	}
	m.Reset()
	m.Kind = &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: e.first, Count: e.count, Crc32C: e.crc, Records: e.records}}
	return nil
}

// Fields of ReadResponse.
const (
	batchesField  = 1
	endField      = 2
	caughtUpField = 3
)

// marshalRead is marshalProduce for what readers get.
func marshalRead(m *novav1.ReadResponse) mem.BufferSlice {
	size := 0
	for _, b := range m.GetBatches() {
		if size += len(b.GetRecords()); unknown(b) {
			return nil
		}
	}
	if size < sharedBytes || unknown(m) {
		return nil
	}
	out := make(mem.BufferSlice, 0, 2*len(m.GetBatches())+1)
	// The headers share one piece of memory, which never grows: 64 bytes are more than any of them.
	heads := make([]byte, 0, 64*(len(m.GetBatches())+1))
	for _, b := range m.GetBatches() {
		e := envelope{b.GetBase(), b.GetCount(), b.GetCrc32C(), b.GetRecords()}
		from := len(heads)
		heads = protowire.AppendTag(heads, batchesField, protowire.BytesType)
		heads = e.appendHeader(protowire.AppendVarint(heads, uint64(e.bytes())))
		out = append(out, mem.SliceBuffer(heads[from:]), mem.SliceBuffer(e.records))
	}
	from := len(heads)
	if m.GetEnd() != 0 {
		heads = protowire.AppendTag(heads, endField, protowire.VarintType)
		heads = protowire.AppendVarint(heads, m.GetEnd())
	}
	if m.GetCaughtUp() {
		heads = protowire.AppendTag(heads, caughtUpField, protowire.VarintType)
		heads = protowire.AppendVarint(heads, 1)
	}
	return append(out, mem.SliceBuffer(heads[from:]))
}

// unmarshalRead reads a response whose batches share b.
func unmarshalRead(b []byte, m *novav1.ReadResponse) error {
	whole := b
	r := &novav1.ReadResponse{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return proto.Unmarshal(whole, m)
		}
		b = b[n:]
		switch {
		case field == batchesField && kind == protowire.BytesType:
			inner, size := protowire.ConsumeBytes(b)
			if size < 0 {
				return proto.Unmarshal(whole, m)
			}
			e, ok := parseEnvelope(inner)
			if !ok {
				return proto.Unmarshal(whole, m)
			}
			b = b[size:]
			r.Batches = append(r.Batches, &novav1.ReadBatch{Base: e.first, Count: e.count, Crc32C: e.crc, Records: e.records})
		case (field == endField || field == caughtUpField) && kind == protowire.VarintType:
			v, size := protowire.ConsumeVarint(b)
			if size < 0 {
				return proto.Unmarshal(whole, m)
			}
			b = b[size:]
			if field == endField {
				r.End = v
			} else {
				r.CaughtUp = protowire.DecodeBool(v)
			}
		default:
			return proto.Unmarshal(whole, m)
		}
	}
	m.Reset()
	m.Batches, m.End, m.CaughtUp = r.Batches, r.End, r.CaughtUp
	return nil
}

func unknown(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) > 0 }
