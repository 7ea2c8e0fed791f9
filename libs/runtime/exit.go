package runtime

import (
	"errors"
	"strings"
)

// Exit codes of every nova binary.
const (
	ExitFailed = 1   // it ran and failed
	ExitUsage  = 2   // it was started wrongly: flags, configuration, or what it stands on
	ExitSecond = 130 // a second signal ended it where it stood
)

// exitError is an error with the exit code that it stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// ExitError gives err an exit code. The outermost code of a chain is the one that counts.
func ExitError(code int, err error) error { return &exitError{code, err} }

// ExitCode is the exit code that err stands for: 0 for nil, and ExitFailed where none was given.
func ExitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return ExitFailed
}

// oneLine folds an error's text into one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
