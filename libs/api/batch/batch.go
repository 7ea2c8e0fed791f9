// Package batch encodes the records of one batch as one run of bytes.
//
// The producer encodes once; leader, flight and reader carry the bytes as they are, under one CRC32C,
// so a record is neither parsed nor copied on its way to storage and back beyond the leader's one check.
//
// Layout: a format byte (1), then each record as a uvarint length and a body. A body is a varint
// timestamp in Unix milliseconds, the key (a uvarint length plus one, 0 meaning no key), the value
// (uvarint length), and a uvarint count of headers, each a name and a value with uvarint lengths.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"time"
)

const format = 1

// MaxCount bounds the records of one batch.
const MaxCount = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrMalformed is a batch whose bytes do not hold what they claim.
var ErrMalformed = errors.New("malformed batch")

// TooLargeError is a record above the bound.
type TooLargeError struct{ RecordBytes, MaxBytes int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("record of %d bytes is above the bound of %d bytes", e.RecordBytes, e.MaxBytes)
}

// Record is what a producer appends and a reader gets.
type Record struct {
	Key     []byte // nil: no key
	Value   []byte
	Headers []Header
	Time    time.Time // the producer's clock, to the millisecond
}

// Header is one name and value beside a record.
type Header struct {
	Name  string
	Value []byte
}

// CRC is the CRC32C of a batch's bytes, which readers check end to end.
func CRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Append adds r to the batch b; an empty b begins a batch.
func Append(b []byte, r Record) []byte {
	if len(b) == 0 {
		b = append(b, format)
	}
	ms := r.Time.UnixMilli()
	if r.Time.IsZero() {
		ms = 0
	}
	b = binary.AppendUvarint(b, uint64(bodyBytes(r, ms)))
	b = binary.AppendVarint(b, ms)
	if r.Key == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(r.Key))+1)
		b = append(b, r.Key...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Value)))
	b = append(b, r.Value...)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = binary.AppendUvarint(b, uint64(len(h.Name)))
		b = append(b, h.Name...)
		b = binary.AppendUvarint(b, uint64(len(h.Value)))
		b = append(b, h.Value...)
	}
	return b
}

// EncodedBytes is how much Append adds for r, the format byte apart.
func EncodedBytes(r Record) int {
	ms := r.Time.UnixMilli()
	if r.Time.IsZero() {
		ms = 0
	}
	n := bodyBytes(r, ms)
	return uvarintBytes(uint64(n)) + n
}

func bodyBytes(r Record, ms int64) int {
	var scratch [binary.MaxVarintLen64]byte
	n := binary.PutVarint(scratch[:], ms)
	if r.Key == nil {
		n++
	} else {
		n += uvarintBytes(uint64(len(r.Key))+1) + len(r.Key)
	}
	n += uvarintBytes(uint64(len(r.Value))) + len(r.Value)
	n += uvarintBytes(uint64(len(r.Headers)))
	for _, h := range r.Headers {
		n += uvarintBytes(uint64(len(h.Name))) + len(h.Name) + uvarintBytes(uint64(len(h.Value))) + len(h.Value)
	}
	return n
}

func uvarintBytes(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// Check says whether b holds exactly count well-formed records, none above maxRecordBytes. It returns
// ErrMalformed or a *TooLargeError. It allocates nothing.
func Check(b []byte, count uint32, maxRecordBytes int) error {
	n := uint32(0)
	for body, err := range bodies(b) {
		if err != nil {
			return err
		}
		if len(body) > maxRecordBytes {
			return &TooLargeError{RecordBytes: len(body), MaxBytes: maxRecordBytes}
		}
		if err := checkBody(body); err != nil {
			return err
		}
		if n++; n > count {
			break
		}
	}
	if n != count || count == 0 {
		return fmt.Errorf("%w: it claims %d records and holds %d or more", ErrMalformed, count, n)
	}
	return nil
}

// checkBody walks a body's fields without building a Record.
func checkBody(body []byte) error {
	c := cursor{rest: body}
	c.varint()
	if n := c.uvarint(); n > 0 {
		c.take(n - 1)
	}
	c.take(c.uvarint())
	for n := c.uvarint(); n > 0 && !c.bad; n-- {
		c.take(c.uvarint())
		c.take(c.uvarint())
	}
	if c.bad || len(c.rest) > 0 {
		return fmt.Errorf("%w: a record's fields do not fill its length", ErrMalformed)
	}
	return nil
}

// Records yields the records of b in order; their slices point into b. It ends after the first error.
func Records(b []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for body, err := range bodies(b) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			r, err := decode(body)
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// bodies yields the records' bodies, or one error.
func bodies(b []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if len(b) == 0 || b[0] != format {
			yield(nil, fmt.Errorf("%w: unknown format", ErrMalformed))
			return
		}
		c := cursor{rest: b[1:]}
		for len(c.rest) > 0 {
			body := c.take(c.uvarint())
			if c.bad {
				yield(nil, fmt.Errorf("%w: a record runs past the end", ErrMalformed))
				return
			}
			if !yield(body, nil) {
				return
			}
		}
	}
}

func decode(body []byte) (Record, error) {
	var r Record
	c := cursor{rest: body}
	if ms := c.varint(); ms != 0 {
		r.Time = time.UnixMilli(ms)
	}
	if n := c.uvarint(); n > 0 {
		r.Key = c.take(n - 1)
	}
	r.Value = c.take(c.uvarint())
	for n := c.uvarint(); n > 0 && !c.bad; n-- {
		name := string(c.take(c.uvarint()))
		r.Headers = append(r.Headers, Header{Name: name, Value: c.take(c.uvarint())})
	}
	if c.bad || len(c.rest) > 0 {
		return Record{}, fmt.Errorf("%w: a record's fields do not fill its length", ErrMalformed)
	}
	return r, nil
}

// cursor reads fields from the front of rest; bad stays set after the first that does not fit.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	return advance(c, v, n)
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.rest)
	return advance(c, v, n)
}

func advance[T uint64 | int64](c *cursor, v T, n int) T {
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad = true
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}
