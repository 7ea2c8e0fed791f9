package flightlog

import (
	"bytes"
	"context"
	"sort"
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
	if err := checkKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
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

func (c *memCopy) Get(_ context.Context, key string) ([]byte, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, ok := c.objects[key]
	if !ok {
		return nil, ErrAbsent
	}
	return bytes.Clone(b), nil
}

func (c *memCopy) GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	b, err := c.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	offset = min(offset, int64(len(b)))
	return b[offset:min(offset+n, int64(len(b)))], nil
}

func (c *memCopy) List(_ context.Context, folder string) ([]Object, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var objects []Object
	for key, b := range c.objects {
		if rest, ok := strings.CutPrefix(key, folder+"/"); ok && !strings.Contains(rest, "/") {
			objects = append(objects, Object{Key: key, Bytes: int64(len(b))})
		}
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Key < objects[j].Key })
	return objects, nil
}

func (c *memCopy) Confirm(context.Context, string) error { return nil }

func (c *memCopy) Delete(_ context.Context, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key)
	return nil
}
