package oxiaembed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
)

// A server with sync is killed under the load of several clients, again and again on one folder, and at every
// other kill the crash also leaves garbage behind the last entry of its log. What was answered is there.
func TestKill9KeepsWhatWasAnswered(t *testing.T) {
	const kills, clients, writers = 6, 4, 3
	random := dice(t)
	dir := t.TempDir()
	answered := map[string]int{} // the highest answered value of each key; values rise
	total := 0
	for round := range kills + 1 {
		server := runChild(t, "server", dir, nil)
		addr := server.says("serves")
		c := dial(t, addr)
		for key, value := range answered {
			_, got, _, err := c.Get(t.Context(), key)
			found, _ := strconv.Atoi(string(got))
			if err != nil || found < value { // a later put may have landed without its answer
				t.Fatalf("after kill %d: %s = %q, %v; %d was answered", round, key, got, err, value)
			}
		}
		if round == kills {
			break
		}

		var mu sync.Mutex
		var load sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for n := range clients {
			c := dial(t, addr)
			for w := range writers {
				load.Go(func() {
					for i := 1; ctx.Err() == nil; i++ {
						key, value := fmt.Sprintf("/w/%d/%d/%d", n, w, i%50), round*1_000_000+i
						var options []oxia.PutOption
						if i%10 == 0 {
							key, options = key+"/mine", append(options, oxia.Ephemeral())
						}
						if _, _, err := c.Put(ctx, key, []byte(strconv.Itoa(value)), options...); err != nil {
							return
						}
						if options == nil {
							mu.Lock()
							answered[key] = value
							total++
							mu.Unlock()
						}
					}
				})
			}
		}
		time.Sleep(time.Duration(100+random.IntN(300)) * time.Millisecond)
		server.kill()
		stop()
		load.Wait()
		if round%2 == 0 {
			tearTail(t, filepath.Join(dir, "log", "shard-0"), random)
		}
	}
	if total < 100*kills {
		t.Errorf("%d puts were answered: the load was no load", total)
	}
	t.Logf("%d puts answered over %d kills", total, kills)
}

// tearTail writes garbage behind the last entry of the log's last segment, as a crash of the machine in the
// middle of a write may leave it.
func tearTail(t testing.TB, logDir string, random *rand.Rand) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(logDir, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments in %s: %v, %v", logDir, segments, err)
	}
	path := slices.Max(segments)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(content)
	for end > 0 && content[end-1] == 0 {
		end--
	}
	garbage := make([]byte, 1+random.IntN(300))
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// An entry ends in a time stamp whose last bytes are zero: stay clear of it.
	if _, err := f.WriteAt(garbage, int64(end)+16); err != nil {
		t.Fatal(err)
	}
}
