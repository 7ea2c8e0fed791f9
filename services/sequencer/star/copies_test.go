package star

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// inFolders gives a fleet's express class three folders, which it returns by their number.
func inFolders(t *testing.T, tweak func(*Config)) (*testFleet, [3]string) {
	t.Helper()
	var roots [3]string
	f := newFleet(t, func(c *Config) {
		c.Express = nil
		for i := range roots {
			roots[i] = filepath.Join(t.TempDir(), fmt.Sprint("copy-", i))
			c.Express = append(c.Express, "file://"+roots[i])
		}
		c.AbsorbInterval, c.AbsorbAge, c.SettleInterval = 20*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
		if tweak != nil {
			tweak(c)
		}
	})
	return f, roots
}

// flightsBelow are a copy's flights by their keys.
func flightsBelow(t testing.TB, root string) map[string][]byte {
	t.Helper()
	flights := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(root, "flights"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		flights[strings.TrimPrefix(path, root)] = b
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return flights
}

// differ are the keys that two copies do not hold alike.
func differ(a, b map[string][]byte) (keys []string) {
	for key, object := range a {
		if other, ok := b[key]; !ok || !bytes.Equal(object, other) {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// vandalise harms one file below root: flips a bit, cuts it short, or removes it.
func vandalise(t testing.TB, root string, random *rand.Rand) bool {
	t.Helper()
	flights := flightsBelow(t, root)
	for key, b := range flights { // any
		path := root + key
		var err error
		switch kind := random.IntN(3); {
		case len(b) == 0 || kind == 0:
			err = os.Remove(path)
		case kind == 1:
			err = os.Truncate(path, int64(random.IntN(len(b))))
		default:
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		return err == nil
	}
	return false
}

func counted(t testing.TB, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// S41: a minority copy is harmed at random while producers write and readers read. Every read is right,
// nothing acknowledged is lost, and afterwards the copy holds what the others hold.
func TestAMinorityCopyThatIsHarmedUnderLoadIsRepaired(t *testing.T) {
	t.Parallel()
	f, roots := inFolders(t, func(c *Config) { c.ScrubInterval, c.ScrubBytes = 300*time.Millisecond, 0 })
	s := f.start("a")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var acked [3][]string
	stop, harmed := make(chan struct{}), 0
	var load, vandal sync.WaitGroup
	for i := range acked {
		name := fmt.Sprint("orders-", i)
		f.create(name, novav1.Mode_MODE_ANY, novav1.Class_CLASS_EXPRESS)
		p := f.open("a", name)
		load.Go(func() {
			for n := range 300 {
				value := fmt.Sprintf("%s record %d", name, n)
				p.append(value)
				acked[i] = append(acked[i], value)
				if n%60 == 59 {
					if got := f.read("a", name, 0); len(got) < len(acked[i]) || strings.Join(got[:len(acked[i])], "|") != strings.Join(acked[i], "|") {
						t.Errorf("read %d records of %d acknowledged, or others", len(got), len(acked[i]))
					}
				}
			}
		})
	}
	vandal.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				if vandalise(t, roots[2], random) {
					harmed++
				}
			}
		}
	})
	load.Wait()
	close(stop)
	vandal.Wait()
	eventually(t, "the harmed copy holds what the others hold", 30*time.Second, func() bool {
		good := flightsBelow(t, roots[0])
		return len(good) > 0 && len(differ(good, flightsBelow(t, roots[2]))) == 0 && len(differ(good, flightsBelow(t, roots[1]))) == 0
	})
	for i := range acked {
		if got := f.read("a", fmt.Sprint("orders-", i), 0); strings.Join(got, "|") != strings.Join(acked[i], "|") {
			t.Errorf("stream %d: read %d records, acknowledged %d", i, len(got), len(acked[i]))
		}
	}
	repairs, lost := counted(t, s.report.env.Metrics, "nova_copy_repairs_total"), counted(t, s.report.env.Metrics, "nova_flights_lost_total")
	if found := counted(t, s.report.env.Metrics, "nova_copy_damaged_total"); repairs == 0 || found == 0 || lost > 0 {
		t.Errorf("counted %v repairs, %v damaged objects, %v lost flights", repairs, found, lost)
	}
	t.Logf("harmed %d objects, %v repairs, %d flights", harmed, repairs, len(flightsBelow(t, roots[0])))
}

// The scrub also looks after the chains of stars that are gone.
func TestAGoneStarsChainsAreLookedAfterByOneOfTheLiving(t *testing.T) {
	t.Parallel()
	f, roots := inFolders(t, func(c *Config) { c.ScrubInterval, c.ScrubBytes = 300*time.Millisecond, 0 })
	f.start("gone")
	f.create("orders", novav1.Mode_MODE_ANY, novav1.Class_CLASS_EXPRESS)
	p := f.open("gone", "orders")
	for i := range 20 {
		p.append(fmt.Sprint("record ", i))
	}
	p.close()
	f.stopStar("gone")
	want := flightsBelow(t, roots[0])
	random := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		vandalise(t, roots[1], random)
	}
	if len(differ(want, flightsBelow(t, roots[1]))) == 0 {
		t.Fatal("nothing was harmed")
	}
	f.start("heir")
	eventually(t, "the gone star's flights are whole again", 20*time.Second, func() bool { return len(differ(want, flightsBelow(t, roots[1]))) == 0 })
}

func TestEachChainHasOneScrubber(t *testing.T) {
	fleet := &coord.Snapshot{}
	for _, name := range []string{"a", "b", "c"} {
		fleet.Stars = append(fleet.Stars, coord.Member{Star: &novav1.StarRow{Star: name}})
	}
	if got := scrubber("b/01/express", "a", fleet); got != "b" {
		t.Errorf("the chain of a living star is scrubbed by %s", got)
	}
	if got := scrubber("x/01/express", "x", fleet); got != "x" {
		t.Errorf("a star that the snapshot lacks leaves its chain to %s", got)
	}
	by := map[string]int{}
	for i := range 300 {
		chain := fmt.Sprintf("gone/%d/express", i)
		first := scrubber(chain, "a", fleet)
		if again := scrubber(chain, "b", fleet); again != first {
			t.Fatalf("chain %s is scrubbed by %s and by %s", chain, first, again)
		}
		by[first]++
	}
	if len(by) != 3 || by["a"] < 50 || by["b"] < 50 || by["c"] < 50 {
		t.Errorf("300 chains are spread as %v", by)
	}
}
