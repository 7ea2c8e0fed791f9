package flightlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// settleFolder makes sure that the folder is there and durable in its parents.
func (c *fileCopy) settleFolder(path string) error {
	c.mu.Lock()
	known := c.durable[path]
	c.mu.Unlock()
	if known {
		return nil
	}
	// That a folder is there says nothing about its being durable: whoever made it may have been killed
	// before it synced the parent.
	if err := c.makeFolder(path); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.durable) >= foldersKnown {
		clear(c.durable)
	}
	c.durable[path] = true
	return nil
}

func (c *fileCopy) forgetFolder(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.durable, path)
}

// makeFolder makes path, and every folder between the root and it, present and durable. It does not make
// the root.
func (c *fileCopy) makeFolder(path string) error {
	if path == c.root {
		return nil
	}
	parent := filepath.Dir(path)
	if err := c.makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return c.sync(parent)
}

// makeRoot makes path and its missing parents present, and all that it made durable, and path itself also
// when it was there.
func makeRoot(path string) error {
	parent := filepath.Dir(path)
	if parent == path {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a folder", path)
	case err == nil:
		return syncFolder(parent)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := makeRoot(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("make the folder durable: %w", err), d.Close())
	}
	return d.Close()
}
