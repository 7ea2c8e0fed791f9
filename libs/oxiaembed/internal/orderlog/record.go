package orderlog

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// headerBytes is the fixed part of a record:
//
//	crc32c of the rest (4) | payload length (4) | offset (8) | synced (8) | payload
//
// synced is the highest offset that was durable when the record was written. It is what tells a torn tail
// (nothing behind the tear proves that the torn record had been acknowledged) from damage (something does).
const headerBytes = 24

// maxPayloadBytes bounds one entry: far above what gRPC lets in, far below what a damaged length field says.
const maxPayloadBytes = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type record struct {
	offset  int64
	synced  int64
	payload []byte
}

func (r record) size() int64 { return headerBytes + int64(len(r.payload)) }

// appendTo encodes the record behind buf.
func (r record) appendTo(buf []byte) []byte {
	start := len(buf)
	buf = binary.BigEndian.AppendUint32(buf, 0)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(r.payload)))
	buf = binary.BigEndian.AppendUint64(buf, uint64(r.offset))
	buf = binary.BigEndian.AppendUint64(buf, uint64(r.synced))
	buf = append(buf, r.payload...)
	binary.BigEndian.PutUint32(buf[start:], crc32.Checksum(buf[start+4:], castagnoli))
	return buf
}

// decode reads the record at the start of buf. It reports false for anything that is not a whole, intact
// record: a tear, a flipped bit, zeros (whose CRC-32C is not zero). The payload aliases buf.
func decode(buf []byte) (record, bool) {
	if len(buf) < headerBytes {
		return record{}, false
	}
	length := binary.BigEndian.Uint32(buf[4:])
	offset := binary.BigEndian.Uint64(buf[8:])
	if length > maxPayloadBytes || offset > math.MaxInt64 || int64(len(buf)) < headerBytes+int64(length) {
		return record{}, false
	}
	whole := buf[:headerBytes+int64(length)]
	if crc32.Checksum(whole[4:], castagnoli) != binary.BigEndian.Uint32(whole) {
		return record{}, false
	}
	return record{
		offset:  int64(offset),
		synced:  int64(binary.BigEndian.Uint64(buf[16:])),
		payload: whole[headerBytes:],
	}, true
}
