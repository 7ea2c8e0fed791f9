package oxiaembed

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/oxia-db/oxia/oxia"
)

// BenchmarkPut is a put the whole way, from client to disk. Each caller has a client of its own: without a
// linger, one client has one write under way.
func BenchmarkPut(b *testing.B) {
	for _, synced := range []bool{false, true} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("sync=%v/callers=%d", synced, callers), func(b *testing.B) {
				s := start(b, Config{Dir: b.TempDir(), Sync: synced})
				clients := make([]oxia.SyncClient, callers)
				for n := range clients {
					clients[n] = dial(b, s.Addr())
				}
				var next atomic.Int64
				value := make([]byte, 100)
				b.ResetTimer()
				done := make(chan error, callers)
				for n := range callers {
					go func() {
						var err error
						for i := next.Add(1); i <= int64(b.N) && err == nil; i = next.Add(1) {
							_, _, err = clients[n].Put(b.Context(), fmt.Sprintf("/bench/%d/%d", n, i%1000), value)
						}
						done <- err
					}()
				}
				for range callers {
					if err := <-done; err != nil {
						b.Error(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			})
		}
	}
}
