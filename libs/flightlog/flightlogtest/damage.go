package flightlogtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
)

// Rewrite replaces an object's bytes by what change makes of them, behind nova's back; nil removes it.
func Rewrite(t testing.TB, c flightlog.Copy, key string, change func([]byte) []byte) {
	t.Helper()
	ctx := context.Background()
	b, err := c.Get(ctx, key)
	if err != nil {
		t.Fatalf("damage %s: %v", key, err)
	}
	if err := c.Delete(ctx, key); err != nil {
		t.Fatalf("damage %s: %v", key, err)
	}
	if b = change(b); b == nil {
		return
	}
	if err := c.Put(ctx, key, b); err != nil {
		t.Fatalf("damage %s: %v", key, err)
	}
}

// FlipBit changes one bit of an object; a negative byte counts from the end.
func FlipBit(t testing.TB, c flightlog.Copy, key string, at int) {
	t.Helper()
	Rewrite(t, c, key, func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 1
		return b
	})
}

// Truncate cuts an object to n bytes.
func Truncate(t testing.TB, c flightlog.Copy, key string, n int) {
	t.Helper()
	Rewrite(t, c, key, func(b []byte) []byte { return b[:n] })
}

// Remove takes an object away.
func Remove(t testing.TB, c flightlog.Copy, key string) {
	t.Helper()
	Rewrite(t, c, key, func([]byte) []byte { return nil })
}

// Mem returns n new stores in memory as the copies of a class, each wrapped for faults.
func Mem(t testing.TB, class novav1.Class, n int) (*flightlog.Copies, []*Copy) {
	t.Helper()
	set, wrapped := &flightlog.Copies{Class: class}, make([]*Copy, n)
	for i := range wrapped {
		c, err := flightlog.OpenCopy(fmt.Sprintf("mem://%s-%d", ulid.Make(), i))
		if err != nil {
			t.Fatal(err)
		}
		wrapped[i] = Wrap(c)
		set.List = append(set.List, wrapped[i])
	}
	return set, wrapped
}

// Store puts an object past the faults; one that stands stays.
func Store(c *Copy, key string, b []byte) {
	_ = c.own.Put(context.Background(), key, b)
}
