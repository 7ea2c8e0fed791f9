package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"github.com/oxia-db/oxia/proto"
)

const ownerTimeout = 3 * time.Second

// ownerRole owns a row on the server at addr until it is killed.
func ownerRole(addr string) error {
	c, err := oxia.NewSyncClient(addr, append(testClient, oxia.WithSessionTimeout(ownerTimeout))...)
	if err != nil {
		return err
	}
	if _, _, err := c.Put(context.Background(), "/owned", []byte("v"), oxia.Ephemeral()); err != nil {
		return err
	}
	fmt.Println("owns")
	time.Sleep(2 * time.Minute)
	return c.Close()
}

func gone(t *testing.T, c oxia.SyncClient, key string) bool {
	t.Helper()
	_, _, _, err := c.Get(t.Context(), key)
	if err != nil && !errors.Is(err, oxia.ErrKeyNotFound) {
		t.Fatal(err)
	}
	return err != nil
}

func TestASessionExpiresWhileOthersWrite(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir()})
	writing, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for n := range 4 {
		c := dial(t, s.Addr())
		others.Go(func() {
			for i := 0; writing.Err() == nil; i++ {
				var options []oxia.PutOption
				if n%2 == 0 {
					options = append(options, oxia.Ephemeral())
				}
				if _, _, err := c.Put(t.Context(), fmt.Sprintf("/others/%d/%d", n, i%100), []byte("v"), options...); err != nil {
					t.Errorf("writer %d: %v", n, err)
					return
				}
			}
		})
	}
	owner := runChild(t, "owner", s.Addr(), nil)
	owner.says("owns")
	c := dial(t, s.Addr())
	want(t, c, "/owned", "v")
	owner.kill()
	killed := time.Now()
	until(t, ownerTimeout+2*time.Second, "the dead owner's row is gone", func() bool { return gone(t, c, "/owned") })
	// The client's heartbeats are 2 s apart.
	if took := time.Since(killed); took < ownerTimeout-2500*time.Millisecond {
		t.Errorf("the row went after %v, before its session of %v can have expired", took, ownerTimeout)
	}
	for n := range 4 {
		if got := len(list(t, c, fmt.Sprintf("/others/%d", n))); got != 100 {
			t.Errorf("the living writer %d has %d of 100 rows", n, got)
		}
	}
}

// A session that is open when the server goes down starts again with its whole timeout, and expires then.
func TestASessionWhoseOwnerDiedMeanwhileExpiresAfterARestart(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Sync: true}
	s := start(t, cfg)
	owner := runChild(t, "owner", s.Addr(), nil)
	owner.says("owns")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	owner.kill()
	s = start(t, cfg)
	restarted := time.Now()
	c := dial(t, s.Addr())
	want(t, c, "/owned", "v")
	until(t, ownerTimeout+2*time.Second, "the dead owner's row is gone", func() bool { return gone(t, c, "/owned") })
	if took := time.Since(restarted); took < ownerTimeout-500*time.Millisecond {
		t.Errorf("the row went %v after the restart, before the timeout of %v", took, ownerTimeout)
	}
}

// Sessions expire one after the other all the while the server closes. Oxia's leader would wait for one of
// them for ever: see settleSessions.
func TestCloseWhileSessionsExpire(t *testing.T) {
	const sessions = 1000
	cfg := Config{Dir: t.TempDir(), Sync: true}
	s := start(t, cfg)
	raw := rawDial(t, s)
	shard := int64(0)
	begin := time.Now()
	for i := range sessions { // over a second; each has a row to delete
		session, err := raw.CreateSession(t.Context(), &proto.CreateSessionRequest{SessionTimeoutMs: 2000, ClientIdentity: "test"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := raw.Write(t.Context(), &proto.WriteRequest{Shard: &shard, Puts: []*proto.PutRequest{{
			Key: fmt.Sprintf("/row/%d", i), SessionId: &session.SessionId,
		}}})
		if err != nil || r.Puts[0].Status != proto.Status_OK {
			t.Fatalf("put: %v, %v", r, err)
		}
		if pause := time.Duration(i)*time.Millisecond - time.Since(begin); pause > 0 {
			time.Sleep(pause)
		}
	}
	c := dial(t, s.Addr())
	until(t, 5*time.Second, "the first sessions are gone and others are not", func() bool {
		return len(list(t, c, "/row")) < sessions*3/4
	})
	left := len(list(t, c, "/row"))
	_ = c.Close()
	closing := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("closed in %v with %d of %d sessions left", time.Since(closing), left, sessions)
	// They live on in the next life: closing the server ends no session, nor waits until they have expired.
	if got := len(list(t, dial(t, start(t, cfg).Addr()), "/row")); got < left*3/4 {
		t.Errorf("%d sessions were left at the close, and %d are", left, got)
	}
	if left == 0 {
		t.Error("no session was left to expire: the test tests nothing")
	}
}
