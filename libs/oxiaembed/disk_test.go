//go:build linux

package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
)

func init() {
	roles["small disk"] = smallDiskRole
	roles["read-only"] = readOnlyRole
}

// ownDisk lets a child mount disks that nobody else sees.
func ownDisk() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

var errNoMount = errors.New("this machine does not permit a mount")

func mount(dir string, flags uintptr, options string) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	return nil
}

func testOnOwnDisk(t *testing.T, role string) {
	c := runChild(t, role, t.TempDir(), ownDisk())
	var said []string
	for c.out.Scan() {
		said = append(said, c.out.Text())
	}
	text := strings.Join(said, "\n")
	if strings.Contains(text, errNoMount.Error()) {
		t.Skip(text)
	}
	if !strings.Contains(text, "passed") {
		t.Errorf("the child said:\n%s", text)
	}
}

// A disk fills up under the server: writes are refused before the store is caught, reads go on, the server
// says so, and all is well again when there is space.
func TestAFullDiskRefusesWritesAndHeals(t *testing.T) { testOnOwnDisk(t, "small disk") }

func smallDiskRole(dir string) error {
	if err := mount(dir, 0, "size=150m"); err != nil {
		return err
	}
	if _, err := Start(Config{Dir: filepath.Join(dir, "a"), MinFreeBytes: 151 << 20}); err == nil || !strings.Contains(err.Error(), "free") {
		return fmt.Errorf("started below the minimum: %v", err)
	}
	s, err := Start(Config{Dir: filepath.Join(dir, "b"), Sync: true, MinFreeBytes: 40 << 20})
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := oxia.NewSyncClient(s.Addr(), append(testClient, oxia.WithRequestTimeout(time.Second))...)
	if err != nil {
		return err
	}
	put := func() error { _, _, err := c.Put(ctx, "/k", []byte("v"), oxia.Ephemeral()); return err }
	becomes := func(what string, ok func() bool) error {
		for begin := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				return fmt.Errorf("not within 10 s: %s; healthy: %w", what, s.Healthy(ctx))
			}
		}
		return nil
	}
	if err := put(); err != nil {
		return fmt.Errorf("put with space: %w", err)
	}
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, make([]byte, 100<<20), 0o644); err != nil {
		return err
	}
	if err := becomes("writes are refused", func() bool { return put() != nil }); err != nil {
		return err
	}
	if err := s.Healthy(ctx); err == nil || !strings.Contains(err.Error(), "writes are refused") {
		return fmt.Errorf("a full disk is healthy: %w", err)
	}
	if _, _, _, err := c.Get(ctx, "/k"); err != nil {
		return fmt.Errorf("read on a full disk: %w", err)
	}
	if err := os.Remove(junk); err != nil {
		return err
	}
	if err := becomes("writes are taken again", func() bool { return put() == nil && s.Healthy(ctx) == nil }); err != nil {
		return err
	}
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		return err
	}
	fmt.Println("passed")
	return nil
}

func TestStartOnAReadOnlyDisk(t *testing.T) { testOnOwnDisk(t, "read-only") }

func readOnlyRole(dir string) error {
	if err := mount(dir, 0, "size=150m"); err != nil {
		return err
	}
	cfg := Config{Dir: filepath.Join(dir, "a"), MinFreeBytes: 1}
	s, err := Start(cfg)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	for _, name := range []string{"a", "b"} {
		cfg.Dir = filepath.Join(dir, name)
		s, err := Start(cfg)
		if err == nil {
			return errors.Join(errors.New("started on a read-only disk"), s.Close())
		}
		if !strings.Contains(err.Error(), "read-only file system") {
			return fmt.Errorf("the error does not say it: %w", err)
		}
	}
	fmt.Println("passed")
	return nil
}
