package oxiaembed

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Two servers in one process share Oxia's process-wide metrics and nothing else; one goes on when the other
// closes, and whoever collects the metrics meanwhile is not hurt.
func TestTwoServersInOneProcess(t *testing.T) {
	a, b := start(t, Config{Dir: t.TempDir(), Shards: 2}), start(t, Config{Dir: t.TempDir(), Notifications: true})
	ca, cb := dial(t, a.Addr()), dial(t, b.Addr())
	put(t, ca, "/k", "a")
	put(t, cb, "/k", "b")
	want(t, ca, "/k", "a")
	want(t, cb, "/k", "b")
	collect := func() {
		t.Helper()
		if _, err := prometheus.DefaultGatherer.Gather(); err != nil {
			t.Errorf("collect metrics: %v", err)
		}
	}
	collect()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	collect()
	put(t, cb, "/k", "c")
	want(t, cb, "/k", "c")
	if err := b.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	collect()
}
