package flightlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/novav1"
)

// A flight, all numbers little-endian:
//
//	"NOVF" | version u8 | class u8 | 0 u16 | prefix length u32 | slot u64 | committed u64 | nonce 16
//	| batches u32 | chain length u16 | chain
//	| for each batch: stream 16 | crc32c u32 | length u32 | count u32 | uvarints: epoch, base, number,
//	  producer length | producer
//	| crc32c of all above u32
//	| the batches' bytes, one after the other
//
// The prefix, up to and with its checksum, says where everything lies, so a reader that wants one batch
// or only the table reads no more than that.

const (
	flightVersion = 1
	flightFixed   = 4 + 1 + 1 + 2 + 4 + 8 + 8 + 16 + 4 + 2
	nonceOffset   = 28
	// leastRow is what a batch takes in the table at the least.
	leastRow = 16 + 4 + 4 + 4 + 4

	// MaxBatches bounds the batches of one flight, MaxProducerBytes the name of a batch's producer, and
	// maxPrefix the header and table; together they bound what a decoder allocates.
	MaxBatches       = 1 << 14
	MaxProducerBytes = 256
	maxChainBytes    = 512
	maxPrefix        = 8 << 20
)

var (
	flightMagic = [4]byte{'N', 'O', 'V', 'F'}
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

var (
	// ErrCorrupt: the bytes are no well-formed flight.
	ErrCorrupt = errors.New("corrupt flight")
	// ErrNewer: the object is of a version that this code does not know.
	ErrNewer = errors.New("the object's version is newer than this software; upgrade it")
)

// Batch is what a leadership puts into a flight.
type Batch struct {
	Stream   string // ULID
	Epoch    uint64
	Base     uint64 // sequence of the first record
	Count    uint32
	CRC      uint32 // CRC32C of Records
	Producer string
	Number   uint64
	Records  []byte // owned by the flight from Add on
}

// BatchRef is a batch and where it lies.
type BatchRef struct {
	Stream   string
	Slot     uint64
	Offset   uint64 // bytes into the flight object
	Length   uint32 // bytes
	Epoch    uint64
	Base     uint64
	Count    uint32
	CRC      uint32
	Producer string
	Number   uint64
}

// End is the sequence after the batch's last record.
func (b BatchRef) End() uint64 { return b.Base + uint64(b.Count) }

// Header is what a flight says of itself.
type Header struct {
	Chain     string
	Class     novav1.Class
	Slot      uint64
	Committed uint64 // every slot below it was committed when the flight was built
	Nonce     [16]byte
}

// Prefix is a flight's header and table.
type Prefix struct {
	Header
	Bytes   int // of the prefix itself
	Batches []BatchRef
}

// isOf says whether the flight is the one that belongs in the slot.
func (p *Prefix) isOf(chain string, slot uint64) error {
	if p.Chain != chain || p.Slot != slot {
		return fmt.Errorf("%w: it says that it is slot %d of %s", ErrCorrupt, p.Slot, p.Chain)
	}
	return nil
}

// prefixBytes tells from a flight's first bytes how long its prefix is.
func prefixBytes(b []byte) (int, error) {
	switch {
	case len(b) < flightFixed || [4]byte(b[:4]) != flightMagic:
		return 0, fmt.Errorf("%w: no flight header", ErrCorrupt)
	case b[4] > flightVersion:
		return 0, fmt.Errorf("flight of version %d: %w", b[4], ErrNewer)
	case b[4] != flightVersion || b[6] != 0 || b[7] != 0:
		return 0, fmt.Errorf("%w: a header that no version wrote", ErrCorrupt)
	}
	n := int64(binary.LittleEndian.Uint32(b[8:]))
	if n < flightFixed+4 || n > maxPrefix {
		return 0, fmt.Errorf("%w: a prefix of %d bytes", ErrCorrupt, n)
	}
	return int(n), nil
}

// DecodePrefix reads a flight's header and table from its first bytes, which must hold all of them.
func DecodePrefix(b []byte) (*Prefix, error) {
	n, err := prefixBytes(b)
	if err != nil {
		return nil, err
	}
	if n > len(b) {
		return nil, fmt.Errorf("%w: the prefix has %d bytes, %d are here", ErrCorrupt, n, len(b))
	}
	if crc32.Checksum(b[:n-4], castagnoli) != binary.LittleEndian.Uint32(b[n-4:]) {
		return nil, fmt.Errorf("%w: the prefix's checksum is wrong", ErrCorrupt)
	}
	p := &Prefix{Bytes: n, Header: Header{Class: novav1.Class(b[5]), Slot: binary.LittleEndian.Uint64(b[12:]), Committed: binary.LittleEndian.Uint64(b[20:]), Nonce: nonceOf(b)}}
	count := binary.LittleEndian.Uint32(b[44:])
	c := cursor{rest: b[48 : n-4]}
	p.Chain = string(c.take(uint64(c.u16())))
	if count > MaxBatches || int(count) > len(c.rest)/leastRow {
		return nil, fmt.Errorf("%w: %d batches in a table of %d bytes", ErrCorrupt, count, len(c.rest))
	}
	p.Batches = make([]BatchRef, 0, count)
	offset := uint64(n)
	for range count {
		var r BatchRef
		var id ulid.ULID
		copy(id[:], c.take(16))
		r.Stream, r.Slot, r.Offset = id.String(), p.Slot, offset
		r.CRC, r.Length, r.Count = c.u32(), c.u32(), c.u32()
		r.Epoch, r.Base, r.Number = c.uvarint(), c.uvarint(), c.uvarint()
		r.Producer = string(c.take(c.uvarint()))
		if c.bad {
			return nil, fmt.Errorf("%w: the table is cut short", ErrCorrupt)
		}
		offset += uint64(r.Length)
		if r.Count == 0 || r.Base+uint64(r.Count) < r.Base || r.Length == 0 || len(r.Producer) > MaxProducerBytes {
			return nil, fmt.Errorf("%w: a batch of %d records from sequence %d in %d bytes, by a producer of %d", ErrCorrupt, r.Count, r.Base, r.Length, len(r.Producer))
		}
		p.Batches = append(p.Batches, r)
	}
	if len(c.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the table", ErrCorrupt, len(c.rest))
	}
	return p, nil
}

// Verify says whether b is a whole, undamaged flight.
func Verify(b []byte) (*Prefix, error) {
	p, err := DecodePrefix(b)
	if err != nil {
		return nil, err
	}
	for _, r := range p.Batches {
		end := r.Offset + uint64(r.Length)
		if end > uint64(len(b)) {
			return nil, fmt.Errorf("%w: a batch runs past the end", ErrCorrupt)
		}
		if crc32.Checksum(b[r.Offset:end], castagnoli) != r.CRC {
			return nil, fmt.Errorf("%w: a batch's checksum is wrong", ErrCorrupt)
		}
	}
	return p, nil
}

// nonceOf is the nonce in a flight's first bytes, whatever else is wrong with them; zero for what is no
// flight. No flight has the nonce zero.
func nonceOf(b []byte) (nonce [16]byte) {
	if len(b) >= flightFixed && [4]byte(b[:4]) == flightMagic {
		copy(nonce[:], b[nonceOffset:])
	}
	return nonce
}

// cursor reads from the front of rest; bad stays set after the first field that does not fit.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad = true
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}
