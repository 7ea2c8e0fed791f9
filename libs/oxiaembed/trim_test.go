package oxiaembed

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
)

// More is written than the log keeps. Segments are dropped behind a flushed store, and a kill at that point
// loses nothing: what the log no longer has is durable in the store.
func TestAKillBehindATrimmedLogLosesNothing(t *testing.T) {
	const rows, size = 1000, 100 << 10
	dir := t.TempDir()
	server := runChild(t, "server", dir, nil)
	c := dial(t, server.says("serves"))
	value := func(i int) string { return strings.Repeat(fmt.Sprintf("%08d", i), size/8) }
	for i := range rows {
		put(t, c, fmt.Sprintf("/big/%04d", i), value(i))
	}
	segments := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "log", "shard-0", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	until(t, 10*time.Second, "the log is trimmed", func() bool { return segments() <= keepSegments })
	server.kill()
	tearTail(t, filepath.Join(dir, "log", "shard-0"), dice(t))

	s := start(t, Config{Dir: dir, Sync: true})
	c = dial(t, s.Addr())
	for i := range rows {
		want(t, c, fmt.Sprintf("/big/%04d", i), value(i))
	}
	put(t, c, "/after", "v", oxia.ExpectedRecordNotExists())
}
