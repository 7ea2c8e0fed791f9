package runtime

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is a flag that counts bytes: 4096, 64KiB, 8MiB, 2GiB.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// Set parses a size (pflag.Value).
func (b *Bytes) Set(s string) error {
	number, unit := s, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, unit = rest, u.size
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return fmt.Errorf("%q is no size in bytes; want e.g. 4096, 64KiB or 8MiB", s)
	}
	*b = Bytes(n * unit)
	return nil
}

// String prints the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if n := int64(b); n >= u.size && n%u.size == 0 && u.size > 1 {
			return strconv.FormatInt(n/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Type names the flag's kind in --help.
func (b *Bytes) Type() string { return "bytes" }
