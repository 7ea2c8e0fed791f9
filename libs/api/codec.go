package api

import (
	"strings"
	"unsafe"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"nova.internal/libs/api/novav1"
)

// codec is protobuf over gRPC. It is forced on every nova connection because importing any Oxia package
// replaces the process-wide "proto" codec by a slower one.
//
// Batches of records pass through it uncopied: they are sent from where the caller holds them, and
// received into the one buffer that the message is gathered in (wire.go). What it writes is what protobuf
// writes, byte for byte, so any protobuf client can speak to nova.
//
// Two rules follow for callers. The records of a message that was handed to Send must never change
// afterwards, because gRPC may send them later. And received records share their message's memory: keeping
// one batch of a ReadResponse keeps the others.
type codec struct{}

var _ encoding.CodecV2 = codec{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *novav1.ProduceRequest:
		if out := marshalProduce(m); out != nil {
			return out, nil
		}
	case *novav1.ReadResponse:
		if out := marshalRead(m); out != nil {
			return out, nil
		}
	}
	m := protoadapt.MessageV2Of(v.(protoadapt.MessageV1))
	size := proto.Size(m)
	opts := proto.MarshalOptions{UseCachedSize: true}
	if mem.IsBelowBufferPoolingThreshold(size) {
		buf, err := opts.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(buf)}, err
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	if _, err := opts.MarshalAppend((*buf)[:0], m); err != nil {
		pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *novav1.ProduceRequest:
		if data.Len() >= sharedBytes {
			return unmarshalProduce(gather(data), m)
		}
	case *novav1.ReadResponse:
		if data.Len() >= sharedBytes {
			return unmarshalRead(gather(data), m)
		}
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), protoadapt.MessageV2Of(v.(protoadapt.MessageV1)))
}

// gather copies a message's frames into memory of its own, which nobody may write to: it is a string's.
// A strings.Builder is Go's one way to memory that is not cleared first, and a profile of 64 KiB batches
// showed the clearing to cost as much as the copying.
func gather(data mem.BufferSlice) []byte {
	var b strings.Builder
	b.Grow(data.Len())
	for _, frame := range data {
		b.Write(frame.ReadOnlyData())
	}
	s := b.String()
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
