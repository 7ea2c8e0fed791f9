package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"nova.internal/e2e/process"
)

// TestKill9LosesNothingThatWasAcknowledged kills a fleet at random moments of a mixed load with handoffs,
// starts it again on the same folder, and reads every stream before any producer opens one: each
// acknowledged record is there, once, at its sequence. A restart waits for no old session. The seed is
// printed; NOVA_E2E_SEED sets it.
func TestKill9LosesNothingThatWasAcknowledged(t *testing.T) {
	const kills = 20
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("NOVA_E2E_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	w := newWorkload(6)
	var slowest time.Duration
	for round := range kills + 1 {
		began := time.Now()
		nova, err := process.StartNova(binaries["nova"], data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c := dial(t, nova.Gateway)
		if round == 0 {
			if err := w.create(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.check(ctx, c); err != nil {
			t.Fatalf("after kill %d: %v\n%s", round, err, nova.Stderr())
		}
		if took := time.Since(began); took > slowest {
			slowest = took
		}
		if round == kills {
			if code, err := nova.Stop(45 * time.Second); err != nil || code != 0 {
				t.Errorf("the last stop ended with %d, %v\n%s", code, err, nova.Stderr())
			}
			cancel()
			break
		}
		load, stop := context.WithCancel(ctx)
		written := make(chan struct{})
		go func() {
			defer close(written)
			for _, err := range w.write(load, c, 2, time.Duration(random.IntN(3))*time.Millisecond) {
				t.Log("a producer ended: ", err)
			}
		}()
		moves := make(chan struct{})
		go func() {
			defer close(moves)
			for load.Err() == nil {
				for _, name := range w.names {
					_, _ = c.Handoff(load, name, "") // whatever comes of it
				}
			}
		}()
		time.Sleep(time.Duration(50+random.IntN(700)) * time.Millisecond)
		nova.Kill()
		stop()
		_ = c.Close()
		<-written
		<-moves
		cancel()
	}
	t.Logf("%d kills, %d records acknowledged, the slowest restart with its reading took %v", kills, w.acknowledged(), slowest)
	if w.acknowledged() < 100*kills {
		t.Errorf("only %d records were acknowledged: the load was no load", w.acknowledged())
	}
	// A session of the embedded fleet lasts 15 s.
	if slowest > 12*time.Second {
		t.Errorf("the slowest restart took %v: it waited for an old session", slowest)
	}
}
