package oxiaembed

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
)

func TestARestartKeepsRowsAndTheirVersions(t *testing.T) {
	dir := t.TempDir()
	for life := range 4 {
		s, err := Start(Config{Dir: dir, Sync: life%2 == 0, Notifications: life != 1})
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, s.Addr())
		for i := range life * 50 {
			want(t, c, fmt.Sprintf("/row/%d", i), fmt.Sprint("v", i))
		}
		for i := life * 50; i < (life+1)*50; i++ {
			put(t, c, fmt.Sprintf("/row/%d", i), fmt.Sprint("v", i))
		}
		_, _, version, err := c.Get(t.Context(), "/row/0")
		if err != nil {
			t.Fatal(err)
		}
		if version.ModificationsCount != int64(life) {
			t.Errorf("in life %d the row was modified %d times", life, version.ModificationsCount)
		}
		put(t, c, "/row/0", "v0", oxia.ExpectedVersionId(version.VersionId))
		if err := errors.Join(c.Close(), s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A client does not have to know: the server comes back at its address and the client goes on, and so does
// its session with its rows.
func TestAClientLivesThroughARestart(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Sync: true, Shards: 2}
	s := start(t, cfg)
	cfg.Listen = s.Addr()
	c := dial(t, s.Addr())
	put(t, c, "/durable", "1")
	put(t, c, "/session", "1", oxia.Ephemeral())
	_, _, before, err := c.Get(t.Context(), "/session")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	until(t, 10*time.Second, "the client writes again", func() bool {
		_, _, err := c.Put(t.Context(), "/durable", []byte("2"))
		return err == nil
	})
	want(t, c, "/durable", "2")
	put(t, c, "/session", "2", oxia.Ephemeral())
	_, _, after, err := c.Get(t.Context(), "/session")
	if err != nil {
		t.Fatal(err)
	}
	if after.SessionId != before.SessionId || !after.Ephemeral {
		t.Errorf("the row stood under session %d, and stands under %d (ephemeral: %v)", before.SessionId, after.SessionId, after.Ephemeral)
	}
}

func TestAFolderKeepsItsNumberOfShards(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Start(Config{Dir: dir, Shards: 3})
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "made with 2 shards") {
		t.Errorf("a folder of 2 shards opened with 3: %v; rows would be looked for where they are not", err)
	}
}
