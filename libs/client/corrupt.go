package client

import "fmt"

// CorruptError is an answer to a reader that breaks what readers are promised. Nothing of it is shown.
type CorruptError struct {
	Stream   string
	Sequence uint64 // that the reader wanted next
	Why      string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("read %s at sequence %d: %s", e.Stream, e.Sequence, e.Why)
}
