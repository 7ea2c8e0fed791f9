//go:build linux || darwin || freebsd

package oxiaembed

import "golang.org/x/sys/unix"

// freeBytes is what the folder's disk has left for an ordinary user.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
