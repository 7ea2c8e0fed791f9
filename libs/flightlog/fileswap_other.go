//go:build !linux

package flightlog

import "os"

// swap gives the file at temp the name path in the place of the one there. That one may have been deleted
// a moment ago, which this system cannot tell in the same step.
func swap(temp, path string) error { return os.Rename(temp, path) }
