package flightlog_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

func TestAProbeAcceptsAStoreAndLeavesNothing(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		if err := flightlog.Probe(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if left := listed(t, c, "probes", ""); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
}

// broken is a store that breaks one promise.
type broken struct {
	flightlog.Copy
	put func(ctx context.Context, key string, parts ...[]byte) error
	get func(ctx context.Context, key string) ([]byte, error)
}

func (b broken) Put(ctx context.Context, key string, parts ...[]byte) error {
	if b.put != nil {
		return b.put(ctx, key, parts...)
	}
	return b.Copy.Put(ctx, key, parts...)
}

func (b broken) Get(ctx context.Context, key string) ([]byte, error) {
	if b.get != nil {
		return b.get(ctx, key)
	}
	return b.Copy.Get(ctx, key)
}

func TestAProbeRefusesAStoreThatBreaksAPromise(t *testing.T) {
	set, _ := flightlogtest.Mem(t, 0, 1)
	c := set.List[0]
	overwrites := func(ctx context.Context, key string, parts ...[]byte) error {
		if err := c.Delete(ctx, key); err != nil {
			return err
		}
		err := c.Put(ctx, key, parts...)
		if errors.Is(err, flightlog.ErrExists) { // the other racing put came between
			return nil
		}
		return err
	}
	late := func(ctx context.Context, key string, parts ...[]byte) error {
		if bytes.Equal(parts[0], []byte("three")) {
			return nil
		}
		return c.Put(ctx, key, parts...)
	}
	for name, tc := range map[string]struct {
		c    flightlog.Copy
		want string
	}{
		"overwrites":                    {broken{Copy: c, put: overwrites}, "no create-if-absent"},
		"accepts a put that it drops":   {broken{Copy: c, put: late}, "no create-if-absent"},
		"refuses every put as existing": {broken{Copy: c, put: func(context.Context, string, ...[]byte) error { return flightlog.ErrExists }}, "both refused"},
		"fails every put":               {broken{Copy: c, put: func(context.Context, string, ...[]byte) error { return flightlogtest.ErrInjected }}, "injected fault"},
		"reads other bytes":             {broken{Copy: c, get: func(context.Context, string) ([]byte, error) { return []byte("four"), nil }}, "read back"},
		"reads nothing":                 {broken{Copy: c, get: func(context.Context, string) ([]byte, error) { return nil, flightlog.ErrAbsent }}, "no object"},
	} {
		err := flightlog.Probe(t.Context(), tc.c)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), c.Name()) {
			t.Errorf("%s: Probe = %v, want %q and the copy's name", name, err, tc.want)
		}
	}
}

func TestAProbeOfAStoreThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, copies := flightlogtest.Mem(t, 0, 1)
		copies[0].Inject(flightlogtest.Hang(make(chan struct{})))
		began := time.Now()
		if err := flightlog.Probe(context.Background(), set.List[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Probe = %v, want a timeout", err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the probe took %v", took)
		}
	})
}
