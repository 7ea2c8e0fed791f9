package flightlog

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file that is on the folder's file system and in no folder.
func openUnnamed(folder string) (*os.File, error) {
	return os.OpenFile(folder, os.O_WRONLY|unix.O_TMPFILE, 0o644)
}

// linkUnnamed names it; the way through /proc needs no privilege.
func linkUnnamed(f *os.File, path string) error {
	self := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	if err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: path, Err: err}
	}
	return nil
}
