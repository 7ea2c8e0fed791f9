package coord

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ErrNewer: a row stands that only newer software can read. It is neither absent nor anybody's to replace
// or remove; this process must be upgraded.
var ErrNewer = errors.New("the row's format is newer than this software; upgrade it")

const (
	// rowFormat is the newest format of rows that this software reads, and the one that it writes.
	rowFormat = 1
	// formatField is the number of every row's format, in all kinds and formats for ever.
	formatField protowire.Number = 15
)

// Decode reads the row that stands at path. ErrNewer is one that this software must leave as it is.
//
// The format decides before anything else is read: a newer row may not even parse as the kind that this
// software knows.
func Decode(path string, value []byte, row proto.Message) error {
	if f := formatOf(value); f > rowFormat {
		return fmt.Errorf("decode %s of format %d: %w", path, f, ErrNewer)
	}
	if err := proto.Unmarshal(value, row); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// formatOf is the highest format that an encoded row names, 1 when it names none. Bytes that are no
// protobuf count as far as they can be read.
func formatOf(value []byte) uint64 {
	format := uint64(1)
	for len(value) > 0 {
		number, kind, n := protowire.ConsumeTag(value)
		if n < 0 {
			return format
		}
		value = value[n:]
		if number == formatField && kind == protowire.VarintType {
			if f, n := protowire.ConsumeVarint(value); n > 0 {
				format = max(format, f)
			}
		}
		if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return format
		}
		value = value[n:]
	}
	return format
}

// checkFormat keeps a row that came from newer software from being written by this one, which may have
// read it without what it does not know.
func checkFormat(row protoreflect.Message) error {
	field := row.Descriptor().Fields().ByNumber(formatField)
	if field == nil || field.Name() != "format" {
		return fmt.Errorf("%s has no format and is no row", row.Descriptor().FullName())
	}
	if f := row.Get(field).Uint(); f > rowFormat {
		return fmt.Errorf("%s of format %d: %w", row.Descriptor().FullName(), f, ErrNewer)
	}
	return nil
}
