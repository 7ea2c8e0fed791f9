package flightlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
)

// MaxObjectBytes bounds an object that is read whole: a flight is far smaller, and whatever is larger was
// not put by nova.
const MaxObjectBytes = 1 << 30

func (c *fileCopy) Get(ctx context.Context, key string) ([]byte, error) {
	return call(ctx, c, key, "read", func(path string) ([]byte, error) { return readFile(path, 0, MaxObjectBytes+1) })
}

func (c *fileCopy) GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	return call(ctx, c, key, "read", func(path string) ([]byte, error) { return readFile(path, offset, n) })
}

// readFile reads up to n bytes from offset. It allocates no more than there is to read.
func readFile(path string, offset, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, ErrAbsent
	case offset < 0 || n < 0:
		return nil, fmt.Errorf("a range of %d bytes from %d", n, offset)
	}
	n = min(n, max(info.Size()-offset, 0))
	if n > MaxObjectBytes {
		return nil, fmt.Errorf("%d bytes are more than an object can have", n)
	}
	b := make([]byte, n)
	read, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:read], nil
}

func (c *fileCopy) List(ctx context.Context, folder, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) { c.list(ctx, folder, after, yield) }
}

// list walks one folder and says whether to go on. Its entries are sorted as their keys are, in which a
// folder's name goes on with a slash.
func (c *fileCopy) list(ctx context.Context, folder, after string, yield func(Object, error) bool) bool {
	entries, err := call(ctx, c, folder, "list", func(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		yield(Object{}, err)
		return false
	}
	keyOf := func(e fs.DirEntry) string {
		if e.IsDir() {
			return folder + "/" + e.Name() + "/"
		}
		return folder + "/" + e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	for _, e := range entries {
		key := keyOf(e)
		switch {
		case strings.HasPrefix(e.Name(), "."):
			continue
		case e.IsDir():
			if key <= after && !strings.HasPrefix(after, key) {
				continue
			}
			if !c.list(ctx, strings.TrimSuffix(key, "/"), after, yield) {
				return false
			}
			continue
		case key <= after:
			continue
		}
		size, err := call(ctx, c, key, "list", func(path string) (int64, error) {
			info, err := e.Info()
			if err != nil {
				return 0, err
			}
			return info.Size(), nil
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			yield(Object{}, err)
			return false
		}
		if !yield(Object{Key: key, Bytes: size}, nil) {
			return false
		}
	}
	return true
}
