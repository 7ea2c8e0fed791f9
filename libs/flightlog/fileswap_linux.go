package flightlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// swap gives the file at temp the name path, and the one at path the name temp. It fails where nothing
// stands at path, so that an object that was deleted meanwhile is not made again. File systems that
// cannot exchange two names rename; there a deletion in between is not noticed.
func swap(temp, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return os.Rename(temp, path)
	}
	return err
}
