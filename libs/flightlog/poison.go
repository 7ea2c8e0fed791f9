package flightlog

import (
	"encoding/binary"
	"hash/crc32"
)

// A poison takes a slot that no flight may win any more. It means nothing until the chain row names the
// slot as the chain's seal.
//
//	"NOVP" | version u8 | 0 u8 | fencer length u16 | slot u64 | fencer | crc32c u32
const (
	poisonVersion = 1
	poisonFixed   = 4 + 1 + 1 + 2 + 8
	// maxPoison bounds a poison's bytes: whatever is longer is no poison.
	maxPoison = 512
)

var poisonMagic = [4]byte{'N', 'O', 'V', 'P'}

func encodePoison(slot uint64, fencer string) []byte {
	fencer = fencer[:min(len(fencer), 128)]
	b := append([]byte(nil), poisonMagic[:]...)
	b = append(b, poisonVersion, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(fencer)))
	b = binary.LittleEndian.AppendUint64(b, slot)
	b = append(b, fencer...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// isPoison says whether b is a well-formed poison of the slot. Whatever is not counts as a flight: a
// damaged object must never read as "nothing was here".
func isPoison(b []byte, slot uint64) bool {
	if len(b) < poisonFixed+4 || len(b) > maxPoison || [4]byte(b[:4]) != poisonMagic || b[4] != poisonVersion {
		return false
	}
	n := poisonFixed + int(binary.LittleEndian.Uint16(b[6:])) + 4
	return n == len(b) && binary.LittleEndian.Uint64(b[8:]) == slot && crc32.Checksum(b[:n-4], castagnoli) == binary.LittleEndian.Uint32(b[n-4:])
}
