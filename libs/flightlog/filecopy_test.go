package flightlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// syncs makes the copy note which folders it makes durable, relative to its root.
func syncs(t *testing.T, c Copy) *[]string {
	t.Helper()
	f, log := c.(*fileCopy), &[]string{}
	f.sync = func(folder string) error {
		rel, err := filepath.Rel(f.root, folder)
		if err != nil {
			t.Error(err)
		}
		*log = append(*log, rel)
		return syncFolder(folder)
	}
	return log
}

func mustOpenFile(t *testing.T, root string) Copy {
	t.Helper()
	c, err := OpenCopy("file://" + root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestANewFolderIsMadeDurableInEachParentOnceAndThenTheEntry(t *testing.T) {
	c := mustOpenFile(t, t.TempDir())
	log := syncs(t, c)
	for _, key := range []string{"a/b/1", "a/b/2", "a/c/1"} {
		if err := c.Put(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{".", "a", "a/b", "a/b", ".", "a", "a/c"}
	if diff := cmp.Diff(want, *log); diff != "" {
		t.Errorf("folders made durable (-want +got):\n%s", diff)
	}
}

// S42: killed between making the folders and syncing them; and between the link and the folder's sync.
func TestWhatAKilledProcessLeftIsMadeDurableBeforeItCounts(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a/b/1"), []byte("linked, and the folder not synced"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := mustOpenFile(t, root)
	log := syncs(t, c)
	if err := c.Confirm(t.Context(), "a/b/1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".", "a", "a/b"}, *log); diff != "" {
		t.Errorf("folders made durable before a seen object counts (-want +got):\n%s", diff)
	}
	c = mustOpenFile(t, root)
	log = syncs(t, c)
	if err := c.Put(t.Context(), "a/b/2", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".", "a", "a/b"}, *log); diff != "" {
		t.Errorf("folders made durable by a put into folders that stood (-want +got):\n%s", diff)
	}
}

func TestAnOverwriteIsMadeDurableAndLeavesNothingBehind(t *testing.T) {
	root := t.TempDir()
	c := mustOpenFile(t, root)
	if err := c.Put(t.Context(), "a/1", []byte("old")); err != nil {
		t.Fatal(err)
	}
	log := syncs(t, c)
	if err := c.Overwrite(t.Context(), "a/1", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, *log); diff != "" {
		t.Errorf("folders made durable (-want +got):\n%s", diff)
	}
	if err := c.Overwrite(t.Context(), "a/2", []byte("new")); !errors.Is(err, ErrAbsent) {
		t.Errorf("Overwrite of nothing = %v, want ErrAbsent", err)
	}
	if left, err := os.ReadDir(filepath.Join(root, tempFolder)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	c.(*fileCopy).sync = func(string) error { return errors.New("the disk is gone") }
	if err := c.Overwrite(t.Context(), "a/1", []byte("newer")); err == nil {
		t.Error("an overwrite whose folder could not be synced was acknowledged")
	}
}

// What was deleted between the look and the swap is not made again.
func TestASwapWithNothingMakesNothing(t *testing.T) {
	root := t.TempDir()
	temp, path := filepath.Join(root, "temp"), filepath.Join(root, "gone")
	if err := os.WriteFile(temp, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := swap(temp, path)
	if runtime.GOOS != "linux" {
		t.Skip("this system has no exchange of names")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("swap = %v, want ErrNotExist", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the swap made %s: %v", path, err)
	}
}

func TestAPutWhoseFolderCannotBeMadeDurableIsNotAcknowledged(t *testing.T) {
	c := mustOpenFile(t, t.TempDir())
	broken := errors.New("input/output error")
	c.(*fileCopy).sync = func(folder string) error {
		if filepath.Base(folder) == "b" {
			return broken
		}
		return nil
	}
	if err := c.Put(t.Context(), "a/b/1", []byte("x")); !errors.Is(err, broken) {
		t.Errorf("Put = %v, want the sync's error", err)
	}
	if err := c.Confirm(t.Context(), "a/b/1"); !errors.Is(err, broken) {
		t.Errorf("Confirm = %v, want the sync's error", err)
	}
	c.(*fileCopy).sync = syncFolder
	if err := c.Put(t.Context(), "a/b/1", []byte("x")); !errors.Is(err, ErrExists) {
		t.Errorf("the put repeated = %v, want ErrExists", err)
	}
}

// S42: what a crash leaves of a put is out of sight, and removed once it is surely nobody's.
func TestLeftOverTemporaryFilesAreInvisibleAndSwept(t *testing.T) {
	root := t.TempDir()
	c := mustOpenFile(t, root)
	if err := c.Put(t.Context(), "a/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"crashed": 2 * tempAge, "under way": time.Second} {
		temp := filepath.Join(root, tempFolder, name)
		if err := os.WriteFile(temp, []byte("half a fli"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(temp, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	c = mustOpenFile(t, root)
	left, err := os.ReadDir(filepath.Join(root, tempFolder))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Name() != "under way" {
		t.Errorf("temporary files after open: %v, want the one under way", left)
	}
	for o, err := range c.List(t.Context(), "a", "") {
		if err != nil || o.Key != "a/1" {
			t.Errorf("listed %v, %v", o, err)
		}
	}
}

func TestAPutLeavesNoTemporaryFile(t *testing.T) {
	root := t.TempDir()
	c := mustOpenFile(t, root)
	for range 2 { // the second is refused
		_ = c.Put(t.Context(), "a/1", []byte("x"))
	}
	left, err := os.ReadDir(filepath.Join(root, tempFolder))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A store that vanished under a running star must not be made anew in its place.
func TestAnEmptiedFolderTakesNoPuts(t *testing.T) {
	root := t.TempDir()
	c := mustOpenFile(t, root)
	if err := c.Put(t.Context(), "a/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", tempFolder} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a/2", "b/1"} {
		if err := c.Put(t.Context(), key, []byte("x")); err == nil || errors.Is(err, ErrExists) {
			t.Errorf("Put(%s) = %v, want an error", key, err)
		}
	}
}

// Somebody removed the chain's folder; the put after the one that noticed makes it again.
func TestAFolderThatVanishedIsMadeAgain(t *testing.T) {
	root := t.TempDir()
	c := mustOpenFile(t, root)
	if err := c.Put(t.Context(), "a/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), "a/2", []byte("x")); err == nil {
		t.Fatal("a put into a folder that is gone succeeded")
	}
	if err := c.Put(t.Context(), "a/2", []byte("x")); err != nil {
		t.Errorf("the put repeated = %v", err)
	}
}

func TestOpeningRefusesAFileInTheFoldersPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, filepath.Join(file, "below")} {
		_, err := OpenCopy("file://" + root)
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("OpenCopy(%s) = %v, want an error that names it", root, err)
		}
	}
}

func TestAFileWhereAFolderMustBeIsAnError(t *testing.T) {
	c := mustOpenFile(t, t.TempDir())
	if err := c.Put(t.Context(), "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), "a/b", []byte("x")); err == nil || errors.Is(err, ErrExists) {
		t.Errorf("Put below a file = %v, want an error", err)
	}
	if _, err := c.Get(t.Context(), "a/b"); err == nil {
		t.Error("Get below a file succeeded")
	}
}
