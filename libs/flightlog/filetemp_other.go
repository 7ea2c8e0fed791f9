//go:build !linux

package flightlog

import (
	"errors"
	"os"
)

func openUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }
func linkUnnamed(*os.File, string) error   { return errors.ErrUnsupported }
