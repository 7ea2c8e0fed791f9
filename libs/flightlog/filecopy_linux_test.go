package flightlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// makePipe makes a named pipe and returns what lets go of whoever hangs in opening it.
func makePipe(t *testing.T, path string) (release func()) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// mounted mounts a small file system in memory, where that is permitted.
func mounted(t *testing.T, options string) (root string, remount func(flags uintptr), unmount func()) {
	t.Helper()
	root = t.TempDir()
	if err := syscall.Mount("none", root, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting is not permitted here: %v", err)
	}
	gone := false
	unmount = func() {
		if !gone {
			gone = true
			if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)
	return root, func(flags uintptr) {
		if err := syscall.Mount("none", root, "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}, unmount
}

func TestAFullFolderIsAnErrorThatMayPass(t *testing.T) {
	root, _, _ := mounted(t, "size=256k")
	c := mustOpenFile(t, root)
	filler := filepath.Join(root, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 200<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	flight := bytes.Repeat([]byte{2}, 100<<10)
	if err := c.Put(t.Context(), "a/1", flight); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put = %v, want ENOSPC", err)
	}
	if _, err := c.Get(t.Context(), "a/1"); !errors.Is(err, ErrAbsent) {
		t.Errorf("Get after it = %v, want ErrAbsent: half an object must not be seen", err)
	}
	if left, err := os.ReadDir(filepath.Join(root, tempFolder)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), "a/1", flight); err != nil {
		t.Errorf("Put with room again = %v", err)
	}
}

func TestAReadOnlyFolderIsRefusedByNameAtStart(t *testing.T) {
	root, remount, _ := mounted(t, "size=256k")
	c := mustOpenFile(t, root)
	remount(syscall.MS_RDONLY)
	err := Probe(t.Context(), c)
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), root) {
		t.Errorf("Probe = %v, want EROFS and the folder's name", err)
	}
	if _, err := OpenCopy("file://" + filepath.Join(root, "below")); !errors.Is(err, syscall.EROFS) {
		t.Errorf("OpenCopy of a new folder there = %v, want EROFS", err)
	}
}

// S43: the folder's file system goes away under a running star and leaves the empty mount point.
func TestAnUnmountedStoreNeitherVotesNorTakesPuts(t *testing.T) {
	root, _, unmount := mounted(t, "size=256k")
	bare := mustOpenFile(t, root)
	id, err := Format(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	c := Admit(bare, id)
	if err := c.Put(t.Context(), "a/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	unmount()
	if _, err := c.Get(t.Context(), "a/1"); !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("Get of an object that went with its store = %v, want ErrNotAdmitted", err)
	}
	if err := c.Put(t.Context(), "b/1", []byte("x")); err == nil || errors.Is(err, ErrExists) {
		t.Errorf("Put = %v, want a refusal", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("the mount point holds %v, %v; want nothing", entries, err)
	}
}

func TestAStoreThatHangsHoldsNobodyBeyondHisContext(t *testing.T) {
	root := t.TempDir()
	c := mustOpenFile(t, root)
	pipe := makePipe(t, filepath.Join(root, "hung")) // opening it hangs, as a dead network mount does
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "hung"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get = %v, want the deadline", err)
	}
	if err := c.Put(t.Context(), "a/1", []byte("x")); err != nil {
		t.Errorf("another call beside the one that hangs: %v", err)
	}
	pipe()
}
