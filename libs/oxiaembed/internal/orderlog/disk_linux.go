package orderlog

import (
	"errors"
	"os"
	"syscall"
)

// reserve gives the file bytes of zeros that the disk is bound to have room for.
func reserve(f *os.File, bytes int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, bytes)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, bytes)
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return extend(f, bytes)
	}
	return err
}

// flush makes written records durable. The size does not change within a segment, so the metadata can stay behind.
func flush(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
