package coord

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oxia-db/oxia/common/hash"
	"github.com/oxia-db/oxia/oxia"
)

// gated is an Oxia client whose calls wait for gate where key says so.
type gated struct {
	KV
	stuck func(key string) bool
	gate  chan struct{}

	sent, deleted atomic.Int64
}

func (g *gated) Get(ctx context.Context, key string, _ ...oxia.GetOption) (string, []byte, oxia.Version, error) {
	g.sent.Add(1)
	return key, nil, oxia.Version{}, g.wait(ctx, key)
}

func (g *gated) Put(ctx context.Context, key string, _ []byte, _ ...oxia.PutOption) (string, oxia.Version, error) {
	g.sent.Add(1)
	return key, oxia.Version{VersionId: 7}, g.wait(ctx, key)
}

func (g *gated) Delete(context.Context, string, ...oxia.DeleteOption) error {
	g.deleted.Add(1)
	return nil
}

func (g *gated) Close() error { return nil }

func (g *gated) wait(ctx context.Context, key string) error {
	if !g.stuck(key) {
		return nil
	}
	select {
	case <-g.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// S01: what one shard leaves unanswered takes nothing from the others, and is not sent when its callers
// have long left.
func TestAShardThatIsAwayHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := func(key string) bool { return hash.Xxh332(key) < 1<<31 } // the first of two shards
		kv := &gated{stuck: away, gate: make(chan struct{})}
		c := newClient(kv, 3*time.Second)
		var there, gone []string
		for i := 0; len(there) < 1000 || len(gone) < 20*lanes*laneWidth/2; i++ {
			key := string(rune('a'+i%26)) + time.Duration(i).String()
			if away(key) {
				gone = append(gone, key)
			} else {
				there = append(there, key)
			}
		}
		for _, key := range gone {
			go func() {
				if _, err := c.get(t.Context(), key, key); !errors.Is(err, ErrUnknown) {
					t.Errorf("a read of the shard that is away: %v", err)
				}
			}()
		}
		synctest.Wait()
		if sent := kv.sent.Load(); sent > lanes/2*laneWidth {
			t.Errorf("%d calls are under way; want at most %d", sent, lanes/2*laneWidth)
		}
		began := time.Now()
		for _, key := range there {
			if _, err := c.get(t.Context(), key, key); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("reads of the shard that is there took %v", took)
		}
		time.Sleep(4 * time.Second) // every caller has left
		sent := kv.sent.Load()
		close(kv.gate)
		synctest.Wait()
		if late := kv.sent.Load() - sent; late > 0 {
			t.Errorf("%d calls were sent after their callers had left", late)
		}
		if _, err := c.get(t.Context(), gone[0], gone[0]); err != nil {
			t.Errorf("a read after the shard is back: %v", err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
}

// The reads that notice a lost session must get through while every ephemeral put waits for a new one.
func TestPutsThatWaitForASessionHoldUpNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &gated{stuck: func(key string) bool { return key == "put" }, gate: make(chan struct{})}
		c := newClient(kv, 3*time.Second)
		for range 3 * laneWidth {
			go func() { _, _ = c.putEphemeral(t.Context(), "put", nil, anyVersion) }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := c.get(t.Context(), "get", fleetPartition); err != nil || time.Since(began) > 0 {
			t.Errorf("a read after %v: %v", time.Since(began), err)
		}
		if err := c.deleteRow(t.Context(), "get", 1); err != nil || time.Since(began) > 0 {
			t.Errorf("a deletion after %v: %v", time.Since(began), err)
		}
		time.Sleep(4 * time.Second)
		_ = c.close()
	})
}

func TestARowCreatedForACallerWhoLeftIsRemoved(t *testing.T) {
	for name, tc := range map[string]struct {
		at      Version
		deleted int64
	}{
		"a creation is undone":              {Absent, 1},
		"a rewrite is left as it is":        {5, 0},
		"an unconditional write is as well": {anyVersion, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := &gated{stuck: func(string) bool { return true }, gate: make(chan struct{})}
				c := newClient(kv, 3*time.Second)
				if _, err := c.putEphemeral(t.Context(), "k", nil, tc.at); !errors.Is(err, ErrUnknown) {
					t.Fatal(err)
				}
				close(kv.gate)
				synctest.Wait()
				if n := kv.deleted.Load(); n != tc.deleted {
					t.Errorf("%d deletions; want %d", n, tc.deleted)
				}
				if _, err := c.putEphemeral(t.Context(), "k", nil, tc.at); err != nil || kv.deleted.Load() != tc.deleted {
					t.Errorf("a put whose caller waits: %v, %d deletions", err, kv.deleted.Load())
				}
				_ = c.close()
			})
		})
	}
}

func TestClosingEndsCallsAndRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &gated{stuck: func(string) bool { return true }, gate: make(chan struct{})}
		c := newClient(kv, time.Hour)
		ended := make(chan error, 1)
		go func() {
			_, err := c.get(t.Context(), "k", "k")
			ended <- err
		}()
		synctest.Wait()
		if err := c.close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrUnknown) {
			t.Errorf("a call under way ends with %v", err)
		}
		_, err := c.get(t.Context(), "k", "k")
		serr := c.scan(t.Context(), "a", "b", "k", func(stored) error { return nil })
		if !errors.Is(err, errClosed) || !errors.Is(serr, errClosed) {
			t.Errorf("calls of a closed client: %v; %v", err, serr)
		}
		if err := c.close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	})
}

// closing hangs, as Oxia's client does at a server that is away.
type closing struct{ gated }

func (c *closing) Close() error { <-c.gate; return nil }

func TestClosingIsBoundedWhenOxiaIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &closing{gated{stuck: func(string) bool { return true }, gate: make(chan struct{})}}
		c := newClient(kv, 3*time.Second)
		began := time.Now()
		err := c.close()
		if took := time.Since(began); err == nil || took > closeLimit {
			t.Errorf("took %v, %v; want an error within %v", took, err, closeLimit)
		}
		close(kv.gate)
	})
}
