package ctl

import (
	"bytes"
	"fmt"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
)

// maxLineBytes bounds what is held of one line. It lies above what any server takes, whose own bound is
// known only once the stream is open.
const maxLineBytes = api.MaxMessageBytes

// splitter cuts an input that comes in pieces into lines. It is pure. An empty line is a line, and so is
// what follows the last line end, if anything does. The line end is "\n" alone: what stands before it
// belongs to the line, so that the lines joined by "\n" are the input again.
type splitter struct {
	rest  []byte // of a line that has not ended yet
	lines int    // ended so far
}

// lineError is about one line of the input.
type lineError struct {
	line int // from 1
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// feed calls yield for each line that piece ends. The line is valid during the call only.
func (s *splitter) feed(piece []byte, yield func(line []byte) error) error {
	for {
		line, after, ended := bytes.Cut(piece, []byte{'\n'})
		if n := len(s.rest) + len(line); n > maxLineBytes {
			return &lineError{s.lines + 1, &batch.TooLargeError{RecordBytes: n, MaxBytes: maxLineBytes}}
		}
		if !ended {
			s.rest = append(s.rest, line...)
			return nil
		}
		if len(s.rest) > 0 {
			s.rest = append(s.rest, line...)
			line = s.rest
		}
		s.lines++
		if err := yield(line); err != nil {
			return err
		}
		s.rest, piece = s.rest[:0], after
	}
}

// finish calls yield for the line that no line end closed, if there is one.
func (s *splitter) finish(yield func(line []byte) error) error {
	if len(s.rest) == 0 {
		return nil
	}
	s.lines++
	return yield(s.rest)
}
