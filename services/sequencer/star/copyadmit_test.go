package star

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/flightlog"
)

func (f *testFleet) control(star string) novav1.StarClient {
	return novav1.NewStarClient(f.conn(star))
}

// storage is the state of the express copies as a star tells it.
func (f *testFleet) storage(star string, verify bool) []*novav1.CopyStatus {
	f.t.Helper()
	r, err := f.control(star).Storage(f.t.Context(), &novav1.StorageRequest{Verify: verify})
	if err != nil {
		f.t.Fatal(api.FromError(err))
	}
	var express []*novav1.CopyStatus
	for _, c := range r.GetCopies() {
		if c.GetClass() == novav1.Class_CLASS_EXPRESS {
			express = append(express, c)
		}
	}
	return express
}

// admitCopy admits an express copy and returns the last that was told.
func (f *testFleet) admitCopy(star string, index uint32) (*novav1.AdmitCopyResponse, error) {
	f.t.Helper()
	call, err := f.control(star).AdmitCopy(f.t.Context(), &novav1.AdmitCopyRequest{Class: novav1.Class_CLASS_EXPRESS, Index: index})
	if err != nil {
		return nil, err
	}
	var last *novav1.AdmitCopyResponse
	for {
		m, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, api.FromError(err)
		}
		last = m
	}
}

// exchange puts an empty folder in a copy's place, and returns where the copy's own went.
func exchange(t *testing.T, root string) (old string) {
	t.Helper()
	old = root + "-before"
	if err := os.Rename(root, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return old
}

// S43: a copy is replaced by an empty folder while the star that wrote to it is dead, and another copy
// lacks the newest flights. Nothing is lost; the folder neither votes nor takes puts until it is
// admitted; then it stands in for another copy; and the store that it replaced is refused for ever.
func TestACopyThatIsReplacedByAnEmptyFolderVotesOnlyOnceItIsAdmitted(t *testing.T) {
	t.Parallel()
	f, roots := inFolders(t, func(c *Config) { c.AbsorbAge = time.Hour; c.ScrubInterval = 200 * time.Millisecond; c.ScrubBytes = 0 })
	f.start("a")
	f.create("orders", novav1.Mode_MODE_ANY, novav1.Class_CLASS_EXPRESS)
	var want []string
	write := func(p *producer, n int) {
		t.Helper()
		for range n {
			value := fmt.Sprint("record ", len(want))
			p.append(value)
			want = append(want, value)
		}
	}
	p := f.open("a", "orders")
	write(p, 10)
	hidden := roots[1] + "-hidden"
	if err := os.Rename(roots[1], hidden); err != nil {
		t.Fatal(err)
	}
	write(p, 10) // on copies 0 and 2 alone
	f.kill("a")
	if err := os.Rename(hidden, roots[1]); err != nil {
		t.Fatal(err)
	}
	old := exchange(t, roots[2])

	f.start("b")
	check := func(when string) {
		t.Helper()
		var got []string
		eventually(t, "the records are readable "+when, 20*time.Second, func() bool {
			var err error
			got, err = f.tryRead("b", "orders", 0)
			return err == nil && len(got) >= len(want)
		})
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("%s: read %d records, acknowledged %d", when, len(got), len(want))
		}
	}
	check("with a blank copy")
	p = f.open("b", "orders")
	write(p, 10)
	if n := len(flightsBelow(t, roots[2])); n > 0 {
		t.Errorf("%d flights were put into a folder that the fleet does not know", n)
	}
	if c := f.storage("b", false)[2]; c.GetFault() == "" || c.GetFound() != "" || c.GetExpected() == "" || c.GetCounted() {
		t.Errorf("the blank copy is told as %v", c)
	}

	done, err := f.admitCopy("b", 2)
	if err != nil || done.GetIdentity() == "" || done.GetObjects() == 0 {
		t.Fatalf("admitted: %v, %v", done, err)
	}
	if _, err := f.admitCopy("b", 2); err == nil || !strings.Contains(err.Error(), "nothing to admit") {
		t.Errorf("admitted again: %v", err)
	}
	eventually(t, "the admitted copy holds what the others hold", 20*time.Second, func() bool {
		good := flightsBelow(t, roots[0])
		return len(differ(good, flightsBelow(t, roots[2]))) == 0 && len(differ(good, flightsBelow(t, roots[1]))) == 0
	})
	for _, c := range f.storage("b", true) {
		if c.GetFault() != "" || c.GetMissing() > 0 || c.GetDamaged() > 0 || !c.GetCounted() || c.GetFlights() == 0 || c.GetFound() != c.GetExpected() {
			t.Errorf("after the admission a copy is told as %v", c)
		}
	}

	if err := os.Rename(roots[1], hidden); err != nil { // now the admitted copy is needed for the quorum
		t.Fatal(err)
	}
	write(p, 10)
	check("with the admitted copy in the quorum")
	p.close()
	if err := os.Rename(hidden, roots[1]); err != nil {
		t.Fatal(err)
	}

	// The store that was replaced comes back.
	if err := os.RemoveAll(roots[2]); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, roots[2]); err != nil {
		t.Fatal(err)
	}
	if c := f.storage("b", false)[2]; c.GetFault() == "" || c.GetFound() == "" || c.GetFound() == c.GetExpected() {
		t.Errorf("the store before is told as %v", c)
	}
	if _, err := f.admitCopy("b", 2); err == nil || !strings.Contains(err.Error(), "put a blank one in its place") {
		t.Errorf("the store before was admitted: %v", err)
	}
	check("with the old store back")
}

func TestAnAdmissionNeedsTheOthers(t *testing.T) {
	t.Parallel()
	f, roots := inFolders(t, nil)
	f.start("a")
	exchange(t, roots[2])
	hidden := roots[1] + "-hidden"
	if err := os.Rename(roots[1], hidden); err != nil {
		t.Fatal(err)
	}
	if _, err := f.admitCopy("a", 2); err == nil || !strings.Contains(err.Error(), "1 other copies of class express answer and 2 are needed") {
		t.Errorf("admitted with one other copy: %v", err)
	}
	if _, err := f.admitCopy("a", 3); err == nil || !strings.Contains(err.Error(), "counted from 0") {
		t.Errorf("admitted a copy that is not there: %v", err)
	}
	if err := os.Rename(hidden, roots[1]); err != nil {
		t.Fatal(err)
	}
	// Another star is at it.
	role, err := f.stars["a"].fleet.Roles().Claim(t.Context(), "admit/express/2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.admitCopy("a", 2); err == nil || !strings.Contains(err.Error(), "is being admitted") {
		t.Errorf("admitted by two at once: %v", err)
	}
	if err := role.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.admitCopy("a", 2); err != nil {
		t.Errorf("admitted with both: %v", err)
	}
}

// The way out of a split vote: one copy shows the flight, one a poison, and the third is away for good.
func TestASplitVoteIsDecidedOnAPersonsWordAndLosesNothing(t *testing.T) {
	t.Parallel()
	f, roots := inFolders(t, func(c *Config) { c.AbsorbAge = time.Hour })
	f.start("a")
	f.create("orders", novav1.Mode_MODE_ANY, novav1.Class_CLASS_EXPRESS)
	p := f.open("a", "orders")
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprint("record ", i))
		p.append(want[i])
	}
	chain := f.stars["a"].current().chains[novav1.Class_CLASS_EXPRESS].name
	decide := func(r *novav1.DecideChainRequest) (*novav1.DecideChainResponse, error) {
		t.Helper()
		r.Chain = chain
		d, err := f.control("b").DecideChain(t.Context(), r)
		return d, api.FromError(err)
	}
	f.start("b")
	if _, err := decide(&novav1.DecideChainRequest{Apply: true}); err == nil || !strings.Contains(err.Error(), "living incarnation") {
		t.Errorf("the chain of a living star was decided: %v", err)
	}
	f.stopStar("b")
	f.kill("a")
	// The newest slot: on copy 0 a flight, on copy 1 a fencer's poison, and copy 2 is gone.
	last := uint64(0)
	for key := range flightsBelow(t, roots[0]) {
		var slot uint64
		if _, err := fmt.Sscanf(filepath.Base(key), "%d", &slot); err != nil {
			t.Fatal(err)
		}
		last = max(last, slot)
	}
	poison := flightlog.Poison{Chain: chain, Slot: last, Fencer: "earlier"}.Encode()
	if err := os.WriteFile(filepath.Join(roots[1], flightlog.SlotKey(chain, last)), poison, 0o644); err != nil {
		t.Fatal(err)
	}
	exchange(t, roots[2])
	f.start("b")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if p, err := f.tryOpenIn(ctx, "b", &novav1.Open{Name: "orders"}); err == nil {
		t.Fatalf("the stream was opened at %v over an undecided slot", p.opened)
	}
	dry, err := decide(&novav1.DecideChainRequest{})
	if err != nil || dry.GetApplied() || dry.GetLoses() || dry.GetStuck() != "" || dry.GetSeal() != last+1 || len(dry.GetRulings()) < 2 || dry.GetRulings()[0].GetRuling() != "counts" {
		t.Fatalf("asked: %v, %v", dry, err)
	}
	row := &novav1.ChainRow{}
	if _, err := f.meta.Rows().Get(t.Context(), coord.ChainKey(chain), row); err != nil || row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
		t.Fatalf("asking changed the row: %v, %v", row, err)
	}
	eventually(t, "no other fencer is at it", 20*time.Second, func() bool {
		done, derr := decide(&novav1.DecideChainRequest{Apply: true})
		if err = derr; err == nil && (!done.GetApplied() || done.GetSeal() != last+1) {
			t.Fatalf("applied: %v", done)
		}
		return err == nil
	})
	var got []string
	eventually(t, "the records are readable", 20*time.Second, func() bool {
		got, err = f.tryRead("b", "orders", 0)
		return err == nil && len(got) >= len(want)
	})
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("read %q, want %q", got, want)
	}
	// The poison below the seal has given way to the flight.
	if diff := differ(flightsBelow(t, roots[0]), flightsBelow(t, roots[1])); len(diff) > 0 {
		t.Errorf("the copies differ in %v", diff)
	}
}
