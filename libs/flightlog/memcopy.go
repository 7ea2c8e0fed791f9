package flightlog

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
)

// memCopy keeps objects in memory, for tests. Copies of one name are one store in a process.
type memCopy struct {
	name string

	mu      sync.RWMutex
	objects map[string][]byte
}

var memCopies sync.Map // name -> *memCopy

func openMemCopy(url, name string) Copy {
	c, _ := memCopies.LoadOrStore(name, &memCopy{name: url, objects: map[string][]byte{}})
	return c.(*memCopy)
}

func (c *memCopy) Name() string { return c.name }

func (c *memCopy) Put(ctx context.Context, key string, parts ...[]byte) error {
	if err := cmp.Or(checkKey(key), ctx.Err()); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.objects[key]; ok {
		return ErrExists
	}
	c.objects[key] = bytes.Join(parts, nil)
	return nil
}

func (c *memCopy) Overwrite(ctx context.Context, key string, parts ...[]byte) error {
	if err := cmp.Or(checkKey(key), ctx.Err()); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.objects[key]; !ok {
		return ErrAbsent
	}
	c.objects[key] = bytes.Join(parts, nil)
	return nil
}

func (c *memCopy) Get(ctx context.Context, key string) ([]byte, error) {
	return c.GetRange(ctx, key, 0, MaxObjectBytes)
}

func (c *memCopy) GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	if err := cmp.Or(checkKey(key), ctx.Err()); err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, ok := c.objects[key]
	if !ok {
		return nil, ErrAbsent
	}
	offset = min(max(offset, 0), int64(len(b)))
	return bytes.Clone(b[offset : offset+min(max(n, 0), int64(len(b))-offset)]), nil
}

func (c *memCopy) List(ctx context.Context, folder, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := cmp.Or(checkKey(folder), ctx.Err()); err != nil {
			yield(Object{}, err)
			return
		}
		c.mu.RLock()
		var objects []Object
		for key, b := range c.objects {
			if strings.HasPrefix(key, folder+"/") && key > after {
				objects = append(objects, Object{Key: key, Bytes: int64(len(b))})
			}
		}
		c.mu.RUnlock()
		slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.Key, b.Key) })
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (c *memCopy) Confirm(ctx context.Context, key string) error {
	return cmp.Or(checkKey(key), ctx.Err())
}

func (c *memCopy) Delete(ctx context.Context, key string) error {
	if err := cmp.Or(checkKey(key), ctx.Err()); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key)
	return nil
}
