package flightlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// fileCopy keeps objects as files below a folder.
//
// A put writes and fsyncs a temporary file, links it to its final name, which fails where one stands,
// and fsyncs the folder. So whatever has a final name has its content on the disk. What a crash leaves:
//
//	before the link    a temporary file, removed by a later open
//	after the link     a final name that may not outlive a power cut: it was not acknowledged, and
//	                   Confirm makes it durable before anyone counts it
//	after making a     a folder that may not outlive one either: every process makes every folder it
//	folder             touches durable in its parents once, also those that it finds
//
// The temporary files' folder is made at open alone. Where the store was unmounted under a running star,
// or its folder emptied, puts fail instead of landing in whatever is there now.
type fileCopy struct {
	name  string
	root  string
	owner string        // tells the temporary files of processes apart
	temps atomic.Uint64 // counts temporary files
	calls chan struct{} // bounds the calls under way
	sync  func(folder string) error

	mu      sync.Mutex
	durable map[string]bool // folders known to be durable in their parents
}

const (
	// fileCalls bounds the calls to one store at once, those that hang included.
	fileCalls = 64
	// foldersKnown bounds what is remembered of folders; forgetting costs a few fsyncs.
	foldersKnown = 4096
)

func openFileCopy(name, root string) (Copy, error) {
	c := &fileCopy{name: name, root: filepath.Clean(root), owner: rand.Text(), calls: make(chan struct{}, fileCalls), sync: syncFolder, durable: map[string]bool{}}
	temps := filepath.Join(c.root, tempFolder)
	if err := makeRoot(temps); err != nil {
		return nil, fmt.Errorf("open copy %s: %w", name, err)
	}
	sweep(temps)
	return c, nil
}

func (c *fileCopy) Name() string { return c.name }

// call runs f as one of the store's calls. The file system knows no deadlines, so a call that hangs is
// left to itself when ctx ends, and keeps its place among the calls until it returns.
func call[T any](ctx context.Context, c *fileCopy, key, doing string, f func(path string) (T, error)) (T, error) {
	var none T
	if err := checkKey(key); err != nil {
		return none, err
	}
	fail := func(err error) error {
		if errors.Is(err, ErrExists) || errors.Is(err, ErrAbsent) {
			return err
		}
		return fmt.Errorf("%s %s on %s: %w", doing, key, c.name, err)
	}
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return none, fail(ctx.Err())
	}
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-c.calls }()
		if err := ctx.Err(); err != nil {
			answered <- answer{none, err}
			return
		}
		value, err := f(filepath.Join(c.root, filepath.FromSlash(key)))
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			return none, fail(a.err)
		}
		return a.value, nil
	case <-ctx.Done():
		return none, fail(ctx.Err())
	}
}

func (c *fileCopy) Put(ctx context.Context, key string, parts ...[]byte) error {
	_, err := call(ctx, c, key, "put", func(path string) (struct{}, error) { return struct{}{}, c.put(path, parts) })
	return err
}

func (c *fileCopy) put(path string, parts [][]byte) error {
	temp, err := c.newTemp()
	if err != nil {
		return err
	}
	defer temp.discard()
	if err := temp.fill(parts); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := c.settleFolder(folder); err != nil {
		return err
	}
	if err := temp.link(path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return ErrExists
		}
		c.forgetFolder(folder)
		return err
	}
	return c.sync(folder)
}

func (c *fileCopy) Overwrite(ctx context.Context, key string, parts ...[]byte) error {
	_, err := call(ctx, c, key, "overwrite", func(path string) (struct{}, error) { return struct{}{}, c.overwrite(path, parts) })
	return err
}

// overwrite swaps the file that stands at path for a new one. A crash before the swap leaves the old one and
// a temporary file; one after it leaves whichever of the two the disk has under the name, and the other
// is swept with the temporary files.
func (c *fileCopy) overwrite(path string, parts [][]byte) error {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return ErrAbsent
	}
	temp, err := c.newTemp()
	if err != nil {
		return err
	}
	defer temp.discard()
	if err := temp.fill(parts); err != nil {
		return err
	}
	if err := swap(temp.Name(), path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrAbsent
		}
		return err
	}
	folder := filepath.Dir(path)
	if err := c.settleFolder(folder); err != nil {
		return err
	}
	return c.sync(folder)
}

func (c *fileCopy) Confirm(ctx context.Context, key string) error {
	_, err := call(ctx, c, key, "confirm", func(path string) (struct{}, error) {
		folder := filepath.Dir(path)
		if err := c.settleFolder(folder); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.sync(folder)
	})
	return err
}

func (c *fileCopy) Delete(ctx context.Context, key string) error {
	_, err := call(ctx, c, key, "delete", func(path string) (struct{}, error) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return struct{}{}, err
		}
		return struct{}{}, nil
	})
	return err
}
