package flightlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Poison takes a slot that no flight may win any more. It means nothing until the chain row names the
// slot as the chain's seal.
//
//	"NOVP" | version u8 | 0 u8 | fencer length u16 | chain length u16 | slot u64 | nonce 16
//	| fencer | chain | crc32c of all above u32
type Poison struct {
	Chain  string
	Slot   uint64
	Fencer string // star that put it; for people
	Nonce  [16]byte
}

const (
	poisonVersion = 1
	poisonFixed   = 4 + 1 + 1 + 2 + 2 + 8 + 16
	maxFencer     = 255
	// maxPoison bounds a poison's bytes: whatever is longer is none.
	maxPoison = poisonFixed + maxFencer + maxChainBytes + 4
)

var poisonMagic = [4]byte{'N', 'O', 'V', 'P'}

// Encode lays the poison out.
func (p Poison) Encode() []byte {
	fencer, chain := p.Fencer[:min(len(p.Fencer), maxFencer)], p.Chain[:min(len(p.Chain), maxChainBytes)]
	b := append(make([]byte, 0, poisonFixed+len(fencer)+len(chain)+4), poisonMagic[:]...)
	b = append(b, poisonVersion, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(fencer)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(chain)))
	b = binary.LittleEndian.AppendUint64(b, p.Slot)
	b = append(b, p.Nonce[:]...)
	b = append(b, fencer...)
	b = append(b, chain...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// DecodePoison reads a poison. ErrNewer is one that only newer software can judge.
func DecodePoison(b []byte) (Poison, error) {
	switch {
	case len(b) < 5 || [4]byte(b[:4]) != poisonMagic:
		return Poison{}, fmt.Errorf("%w: it is no poison", ErrCorrupt)
	case b[4] > poisonVersion:
		return Poison{}, fmt.Errorf("poison of version %d: %w", b[4], ErrNewer)
	case len(b) < poisonFixed+4 || len(b) > maxPoison:
		return Poison{}, fmt.Errorf("%w: a poison of %d bytes", ErrCorrupt, len(b))
	case crc32.Checksum(b[:len(b)-4], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]):
		return Poison{}, fmt.Errorf("%w: the poison's checksum is wrong", ErrCorrupt)
	}
	fencer, chain := int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint16(b[8:]))
	if b[4] != poisonVersion || b[5] != 0 || poisonFixed+fencer+chain+4 != len(b) {
		return Poison{}, fmt.Errorf("%w: the poison's parts do not fill it", ErrCorrupt)
	}
	p := Poison{Slot: binary.LittleEndian.Uint64(b[10:]), Nonce: [16]byte(b[18:34])}
	p.Fencer, p.Chain = string(b[poisonFixed:poisonFixed+fencer]), string(b[poisonFixed+fencer:len(b)-4])
	return p, nil
}

// Kind is what an object in a slot counts as.
type Kind int

const (
	// KindFlight is every object that is no well-formed poison of the slot. A damaged object must never
	// read as "nothing was acknowledged here".
	KindFlight Kind = iota
	KindPoison
)

// Classify says what an object in the slot counts as, from its first MaxPoisonBytes+1 bytes on. ErrNewer
// means that it may be a poison that this software cannot read: then nobody may decide the slot by it.
func Classify(b []byte, chain string, slot uint64) (Kind, error) {
	p, err := DecodePoison(b)
	if err == nil && p.Chain == chain && p.Slot == slot {
		return KindPoison, nil
	}
	if errors.Is(err, ErrNewer) {
		return KindFlight, err
	}
	return KindFlight, nil
}

// MaxPoisonBytes is how long a poison can be.
const MaxPoisonBytes = maxPoison
