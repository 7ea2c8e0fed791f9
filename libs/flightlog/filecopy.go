package flightlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fileCopy keeps objects as files below a folder.
//
// A put writes and fsyncs a temporary file, links it to its final name, which fails where one stands,
// and fsyncs the folder. A crash leaves at most a temporary file, or a final name whose folder entry is
// not durable yet: Confirm makes such an entry durable before anyone counts it.
type fileCopy struct {
	name string
	root string
	temp atomic.Uint64

	mu   sync.Mutex
	dirs map[string]*os.File // open folders, for fsync
}

const (
	tempPrefix = ".put-"
	// tempAge is when a temporary file is taken to be a crashed writer's.
	tempAge = time.Hour
)

func openFileCopy(name, root string) (Copy, error) {
	c := &fileCopy{name: name, root: filepath.Clean(root), dirs: map[string]*os.File{}}
	if _, err := c.folder(c.root); err != nil {
		return nil, fmt.Errorf("open copy %s: %w", name, err)
	}
	return c, nil
}

func (c *fileCopy) Name() string { return c.name }

func (c *fileCopy) path(key string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return filepath.Join(c.root, filepath.FromSlash(key)), nil
}

func (c *fileCopy) Put(ctx context.Context, key string, parts ...[]byte) error {
	path, err := c.path(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := c.folder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%d-%d-%s", tempPrefix, os.Getpid(), c.temp.Add(1), filepath.Base(path)))
	defer os.Remove(temp)
	if err := writeFile(temp, parts); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if err := os.Link(temp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return ErrExists
		}
		return fmt.Errorf("put %s: %w", key, err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("put %s: make the folder durable: %w", key, err)
	}
	return nil
}

func writeFile(path string, parts [][]byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := f.Write(p); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func (c *fileCopy) Get(_ context.Context, key string) ([]byte, error) {
	path, err := c.path(key)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	return b, absent(key, err)
}

func (c *fileCopy) GetRange(_ context.Context, key string, offset, n int64) ([]byte, error) {
	path, err := c.path(key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, absent(key, err)
	}
	defer f.Close()
	b := make([]byte, n)
	read, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return b[:read], nil
}

func absent(key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrAbsent
	}
	return fmt.Errorf("read %s: %w", key, err)
}

func (c *fileCopy) List(_ context.Context, folder string) ([]Object, error) {
	path, err := c.path(folder)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	var objects []Object
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) || e.IsDir() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", folder, err)
		}
		objects = append(objects, Object{Key: folder + "/" + e.Name(), Bytes: info.Size()})
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Key < objects[j].Key })
	return objects, nil
}

func (c *fileCopy) Confirm(_ context.Context, key string) error {
	path, err := c.path(key)
	if err != nil {
		return err
	}
	dir, err := c.folder(filepath.Dir(path))
	if err != nil {
		return err
	}
	return dir.Sync()
}

func (c *fileCopy) Delete(_ context.Context, key string) error {
	path, err := c.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// folder returns the open folder, made durable in its parents when it is new.
func (c *fileCopy) folder(path string) (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.dirs[path]; d != nil {
		return d, nil
	}
	if err := c.makeFolder(path); err != nil {
		return nil, err
	}
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c.dirs[path] = d
	sweep(path)
	return d, nil
}

func (c *fileCopy) makeFolder(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", path)
		}
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := c.makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sweep removes what crashed writers left in a folder.
func sweep(path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return // the folder's first put will say what is wrong
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), tempPrefix) && time.Since(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(path, e.Name())) // a leftover that stays costs space alone
		}
	}
}
