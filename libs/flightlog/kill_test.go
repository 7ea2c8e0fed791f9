package flightlog_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
)

const killedDir = "FLIGHTLOG_TEST_KILLED_DIR"

// fileCopies are three stores below dir.
func fileCopies(t testing.TB, dir string) *flightlog.Copies {
	t.Helper()
	set := &flightlog.Copies{Class: novav1.Class_CLASS_EXPRESS}
	for i := range 3 {
		set.List = append(set.List, mustOpen(t, "file://"+filepath.Join(dir, fmt.Sprint("copy-", i))))
	}
	return set
}

// TestWriteUntilKilled is the process that the next test kills: it writes as fast as it can and prints
// each slot once it is told that it is committed.
func TestWriteUntilKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("run by TestAKilledWriterLosesNothingThatItCommitted")
	}
	w := flightlog.NewWriter(flightlog.WriterConfig{
		Chain: testChain, Copies: fileCopies(t, dir), Linger: time.Millisecond, FlightBytes: 4 << 10,
		OnCommit: func(c flightlog.Committed) { fmt.Println("committed", c.Slot) },
	})
	for i := uint64(0); ; i++ {
		if err := w.Add(context.Background(), makeBatch(1, i, 1, 1000)); err != nil {
			t.Fatal(err)
		}
	}
}

// S42 and kill -9 at any moment: what was told as committed stands on a quorum, nothing half-written is
// ever seen, and the stores open and take flights again.
func TestAKilledWriterLosesNothingThatItCommitted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random, committed := rand.New(rand.NewPCG(seed, 0)), 0
	for round := range 10 {
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^TestWriteUntilKilled$", "-test.v")
		child.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// From right at its start, before the folders are there, to well into its work.
		timer := time.AfterFunc(time.Duration(random.IntN(60*(round+1)))*time.Millisecond/2, func() { _ = child.Process.Kill() })
		told := map[uint64]bool{}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, ok := strings.CutPrefix(lines.Text(), "committed "); ok {
				if slot, err := strconv.ParseUint(n, 10, 64); err == nil {
					told[slot] = true
				}
			}
		}
		timer.Stop()
		committed += len(told)
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		set := fileCopies(t, dir)
		for slot := range told {
			if v := flightlog.NewGraveyard(set, testChain, "f").Vote(t.Context(), slot); v.Flight < 2 {
				t.Errorf("seed %d, round %d: slot %d was told as committed, votes %+v", seed, round, slot, v)
			}
		}
		for _, c := range set.List {
			for o, err := range c.List(t.Context(), "flights", "") {
				if err != nil {
					t.Fatal(err)
				}
				b, err := c.Get(t.Context(), o.Key)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := flightlog.Verify(b); err != nil {
					t.Errorf("seed %d, round %d: %s on %s: %v", seed, round, o.Key, c.Name(), err)
				}
			}
			if err := flightlog.Probe(t.Context(), c); err != nil {
				t.Errorf("seed %d, round %d: %v", seed, round, err)
			}
		}
		fenceByHand(t, set, told)
	}
	if committed == 0 {
		t.Error("no round committed anything before it was killed")
	}
}

// fenceByHand walks the dead chain as its fencer does and checks that the walk ends above what was told.
func fenceByHand(t *testing.T, set *flightlog.Copies, told map[uint64]bool) {
	t.Helper()
	g := flightlog.NewGraveyard(set, testChain, "fencer")
	slot := g.Committed(t.Context(), 0)
	for {
		v := g.Vote(t.Context(), slot)
		var err error
		switch {
		case v.Poison >= 2:
			for s := range told {
				if s >= slot {
					t.Errorf("the chain ends at slot %d, slot %d was told as committed", slot, s)
				}
			}
			r := flightlog.NewReader(set, nil)
			for s := range slot {
				if _, err := r.Descriptors(t.Context(), testChain, s); err != nil {
					t.Errorf("slot %d of a chain that ends at %d: %v", s, slot, err)
				}
			}
			return
		case v.Flight >= 2:
			slot++
		case v.Flight > 0:
			err = g.Complete(t.Context(), slot)
		default:
			err = g.Poison(t.Context(), slot)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWriterOverRealFoldersCommitsInOrder(t *testing.T) {
	set := fileCopies(t, t.TempDir())
	w, got := newWriter(t, set, func(c *flightlog.WriterConfig) { c.FlightBytes = 16 << 10 })
	for i := range 500 {
		mustAdd(t, w, makeBatch(i%5, uint64(i/5), 1, 700))
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(got.slots()) || got.batches() != 500 {
		t.Errorf("%d batches in slots %v", got.batches(), got.slots())
	}
	for _, c := range set.List {
		if n := len(listed(t, c, "flights/"+testChain, "")); n != len(got.slots()) {
			t.Errorf("%s holds %d flights, want %d", c.Name(), n, len(got.slots()))
		}
	}
}
