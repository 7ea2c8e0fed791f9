package oxiaembed

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oxia-db/oxia/oxia"
)

// Writers race on keys of their own, with and without sessions, and on one compare-and-set register: what
// makes Oxia's own standalone server stop for good.
func TestManyClientsLoseNoPut(t *testing.T) {
	for name, cfg := range map[string]Config{
		"with sync":                  {Sync: true},
		"without, with notification": {Notifications: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Dir = t.TempDir()
			testManyClients(t, start(t, cfg))
		})
	}
}

func testManyClients(t *testing.T, s *Server) {
	const clients, puts = 12, 300
	var wins atomic.Int64
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := dial(t, s.Addr())
			for i := range puts {
				var options []oxia.PutOption
				if i%3 == 0 {
					options = append(options, oxia.Ephemeral())
				}
				if _, _, err := c.Put(t.Context(), fmt.Sprintf("/c/%d/%d", n, i), []byte("v"), options...); err != nil {
					t.Errorf("client %d, put %d: %v", n, i, err)
					return
				}
				if i%5 != 0 {
					continue
				}
				at := oxia.ExpectedRecordNotExists()
				if _, _, v, err := c.Get(t.Context(), "/register"); err == nil {
					at = oxia.ExpectedVersionId(v.VersionId)
				}
				switch _, _, err := c.Put(t.Context(), "/register", []byte("v"), at); {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, oxia.ErrUnexpectedVersionId):
					t.Errorf("register: %v", err)
				}
			}
			if n%2 == 0 {
				if err := c.Close(); err != nil {
					t.Errorf("close client %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	c := dial(t, s.Addr())
	_, _, v, err := c.Get(t.Context(), "/register")
	if err != nil || v.ModificationsCount != wins.Load()-1 {
		t.Errorf("the register was set %d times by its own count, and %d times by its winners (%v)", v.ModificationsCount+1, wins.Load(), err)
	}
	for n := range clients { // half of them closed their sessions: a third of their rows went with them
		rows := puts
		if n%2 == 0 {
			rows -= (puts + 2) / 3
		}
		if got := len(list(t, c, fmt.Sprintf("/c/%d", n))); got != rows {
			t.Errorf("client %d has %d rows, want %d", n, got, rows)
		}
	}
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

// Notifications come for each change, once, in order, beside writers.
func TestNotificationsFollowTheWrites(t *testing.T) {
	const rows = 200
	s := start(t, Config{Dir: t.TempDir(), Notifications: true})
	c := dial(t, s.Addr())
	changes, err := c.GetNotifications()
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		for i := range rows {
			if _, _, err := c.Put(t.Context(), fmt.Sprintf("/n/%03d", i), nil); err != nil {
				t.Errorf("put %d: %v", i, err)
				return
			}
		}
	})
	var got, all []string
	for i := range rows {
		n := <-changes.Ch()
		got, all = append(got, n.Key), append(all, fmt.Sprintf("/n/%03d", i))
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}
