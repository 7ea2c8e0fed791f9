package physical

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Cool makes the kernel forget what it holds of the files, so that the next read comes from the disk.
func Cool(paths []string) error {
	for _, path := range paths {
		if err := cool(path); err != nil {
			return fmt.Errorf("cool %s: %w", path, err)
		}
	}
	return nil
}

func cool(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // only clean pages can be forgotten
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
