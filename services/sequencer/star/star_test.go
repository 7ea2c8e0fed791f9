package star

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/placement"
)

const (
	standard = novav1.Class_CLASS_STANDARD
	express  = novav1.Class_CLASS_EXPRESS
	anyMode  = novav1.Mode_MODE_ANY
)

func TestRecordsAreAcknowledgedInOrderAndReadBack(t *testing.T) {
	for _, class := range []novav1.Class{standard, express} {
		t.Run(class.String(), func(t *testing.T) {
			f := newFleet(t, nil)
			f.start("one")
			row := f.create("orders", anyMode, class)
			p := f.open("one", "orders")
			var want []string
			for i := range 50 {
				values := []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}
				if ack := p.append(values...); ack.GetBase() != uint64(2*i) || ack.GetCount() != 2 || ack.GetNumber() != uint64(i+1) {
					t.Fatalf("ack %d: %v", i, ack)
				}
				want = append(want, values...)
			}
			if diff := cmp.Diff(want, f.read("one", "orders", 0)); diff != "" {
				t.Errorf("read at the tail (-want +got):\n%s", diff)
			}
			p.close()
			f.stopStar("one") // certifies: the mark stands and a cold read serves all
			if head := f.head(row); !epoch.CleanlyReleased(head) || head.GetCovered() != 100 {
				t.Errorf("head after a clean stop: %v", head)
			}
			err := f.meta.Rows().Chains(t.Context(), func(c *novav1.ChainRow) error {
				if c.GetState() != novav1.ChainState_CHAIN_STATE_SETTLED {
					t.Errorf("chain %s is left %v by a clean stop: the next start would have to scan it", c.GetChain(), c.GetState())
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			f.start("two")
			if diff := cmp.Diff(want[7:], f.read("two", "orders", 7)); diff != "" {
				t.Errorf("cold read elsewhere (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAHandoffMovesTheStreamWithItsProducer(t *testing.T) {
	f := newFleet(t, nil)
	f.start("one")
	row := f.create("orders", anyMode, standard)
	p := f.open("one", "orders")
	f.start("two")
	eventually(t, "star one sees star two", 5*time.Second, func() bool { return len(f.stars["one"].fleet.Registry().Snapshot().Stars) == 2 })
	p.append("before")
	id := ulid.Make().String()
	resp, err := novav1.NewStarClient(f.conn("one")).Handoff(t.Context(), &novav1.HandoffRequest{Id: row.GetId(), Target: "two", Handoff: id, Trigger: "operator", Epoch: p.opened.GetEpoch()})
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetEpoch() != 1 || resp.GetCovered() != 1 || resp.GetTaken() != 2 {
		t.Errorf("handoff = %v", resp)
	}
	m, err := p.recv()
	if err != nil || m.GetMoved().GetStar() != "two" || m.GetMoved().GetHandoff() != id {
		t.Fatalf("the handle heard %v, %v; want Moved to two", m, err)
	}
	q := f.open("two", "orders")
	if q.opened.GetEpoch() != 2 || q.opened.GetNext() != 1 {
		t.Errorf("opened at the successor: %v", q.opened)
	}
	q.append("after")
	if diff := cmp.Diff([]string{"before", "after"}, f.read("two", "orders", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var owner *api.NotOwnerError
	if _, err := f.tryOpen("one", &novav1.Open{Name: "orders"}); !errors.As(err, &owner) || owner.Star != "two" {
		t.Errorf("open at the old leader = %v, want NOT_OWNER two", err)
	}
}

// TestAKilledStarsRecordsAreReadableBeforeAnyProducerReturns ends a star without any goodbye: its
// goroutines stop, its session is cut, and another star settles what it left.
func TestAKilledStarsRecordsAreReadableBeforeAnyProducerReturns(t *testing.T) {
	f := newFleet(t, nil)
	f.start("one")
	row := f.create("orders", anyMode, express)
	p := f.open("one", "orders")
	var want []string
	for i := range 20 {
		v := fmt.Sprint("v", i)
		p.append(v)
		want = append(want, v)
	}
	f.kill("one")
	f.start("two")
	if diff := cmp.Diff(want, f.read("two", "orders", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if head := f.head(row); head.GetHolder().GetCoverage() != novav1.Coverage_COVERAGE_RECOVERED || !epoch.CleanlyReleased(head) {
		t.Errorf("head after settling: %v", head)
	}
	q := f.open("two", "orders")
	if q.opened.GetNext() != 20 {
		t.Errorf("the next leader starts at %d, want 20", q.opened.GetNext())
	}
	eventually(t, "the dead chains are settled", 20*time.Second, func() bool {
		left := 0
		_ = f.meta.Rows().Chains(t.Context(), func(c *novav1.ChainRow) error {
			if starOf(c.GetChain()) == "one" && c.GetState() != novav1.ChainState_CHAIN_STATE_SETTLED {
				left++
			}
			return nil
		})
		return left == 0
	})
}

func TestARepeatIsAnsweredWithItsOriginal(t *testing.T) {
	f := newFleet(t, nil)
	f.start("one")
	f.create("orders", anyMode, standard)
	id := ulid.Make().String()
	p, err := f.tryOpen("one", &novav1.Open{Name: "orders", Producer: id})
	if err != nil {
		t.Fatal(err)
	}
	p.append("a")
	p.append("b")
	q, err := f.tryOpen("one", &novav1.Open{Name: "orders", Producer: id, Reopen: true})
	if err != nil {
		t.Fatal(err)
	}
	if q.opened.GetLastNumber() != 2 {
		t.Errorf("last number %d, want 2", q.opened.GetLastNumber())
	}
	q.sendAs(2, "b")
	if ack := q.ack(); ack.GetBase() != 1 {
		t.Errorf("the repeat was stored at %d, its original at 1", ack.GetBase())
	}
	q.sendAs(4, "d")
	var order *api.OutOfOrderError
	if _, err := q.recv(); !errors.As(err, &order) || order.Expected != 3 {
		t.Errorf("a gap in the numbers = %v, want out of order, expected 3", err)
	}
	if got := f.read("one", "orders", 0); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("read %v", got)
	}
}

func TestBadAppendsAreRefused(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.MaxRecordBytes, c.MaxBatchBytes = 1024, 4096 })
	f.start("one")
	f.create("orders", anyMode, standard)
	tests := map[string]func(*producer){
		"a record over the bound": func(p *producer) { p.send(string(make([]byte, 2000))) },
		"a batch over the bound": func(p *producer) {
			p.send(string(make([]byte, 1000)), string(make([]byte, 1000)), string(make([]byte, 1000)), string(make([]byte, 1000)), string(make([]byte, 1000)))
		},
		"a damaged batch": func(p *producer) {
			_ = p.call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: 1, Count: 1, Crc32C: 7, Records: []byte{1, 2, 3}}}})
		},
		"number zero": func(p *producer) { p.sendAs(0, "v") },
		"a second open": func(p *producer) {
			_ = p.call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: &novav1.Open{Name: "orders"}}})
		},
	}
	for name, send := range tests {
		t.Run(name, func(t *testing.T) {
			p := f.open("one", "orders")
			send(p)
			var field *api.FieldError
			if m, err := p.recv(); !errors.As(err, &field) {
				t.Errorf("got %v, %v; want a field error", m, err)
			}
		})
	}
	var field *api.FieldError
	if _, err := f.tryOpen("one", &novav1.Open{Name: "a\x00b"}); !errors.As(err, &field) {
		t.Errorf("a bad name = %v", err)
	}
	if _, err := f.tryOpen("one", &novav1.Open{Name: "nothing"}); !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("an unknown stream = %v", err)
	}
	if got := f.read("one", "orders", 0); len(got) != 0 {
		t.Errorf("something was stored: %q", got)
	}
}

// TestDriftOfTheDesignationMovesNoLedStream opens many streams on a lone star, lets another join, and
// opens them all again: each stays where it is led, though half of them would be placed elsewhere now.
func TestDriftOfTheDesignationMovesNoLedStream(t *testing.T) {
	f := newFleet(t, nil)
	f.start("one")
	elsewhere := 0
	for i := range 16 {
		f.create(fmt.Sprint("s", i), anyMode, standard)
		f.open("one", fmt.Sprint("s", i))
	}
	f.start("two")
	eventually(t, "star one sees star two", 5*time.Second, func() bool { return len(f.stars["one"].fleet.Registry().Snapshot().Stars) == 2 })
	for i := range 16 {
		row, err := f.meta.Names().Get(t.Context(), fmt.Sprint("s", i))
		if err != nil {
			t.Fatal(err)
		}
		d, err := placement.Designate(fleetOf(f.stars["one"].fleet.Registry().Snapshot()), row.GetId())
		if err != nil {
			t.Fatal(err)
		}
		if d.Star.Name == "two" {
			elsewhere++
		}
		if p := f.open("one", fmt.Sprint("s", i)); p.opened.GetEpoch() != 1 {
			t.Errorf("s%d was opened again at epoch %d", i, p.opened.GetEpoch())
		}
		var owner *api.NotOwnerError
		if _, err := f.tryOpen("two", &novav1.Open{Name: fmt.Sprint("s", i)}); !errors.As(err, &owner) || owner.Star != "one" {
			t.Errorf("s%d at the other star: %v, want NOT_OWNER one", i, err)
		}
	}
	if elsewhere == 0 {
		t.Error("no stream's designation drifted: the test shows nothing")
	}
}

// TestAnIdleLeadershipIsRejoinedAndThenReleased keeps a leadership over its last close for the idle
// timeout, lets a handle rejoin at the same epoch, and then releases it with a mark.
func TestAnIdleLeadershipIsRejoinedAndThenReleased(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.IdleTimeout = 500 * time.Millisecond })
	f.start("one")
	row := f.create("orders", anyMode, standard)
	p := f.open("one", "orders")
	p.append("a")
	p.close()
	q := f.open("one", "orders")
	if q.opened.GetEpoch() != 1 || q.opened.GetNext() != 1 {
		t.Fatalf("rejoined as %v", q.opened)
	}
	q.append("b")
	q.close()
	eventually(t, "the leadership is released", 5*time.Second, func() bool { return epoch.CleanlyReleased(f.head(row)) })
	if head := f.head(row); head.GetEpoch() != 1 || head.GetCovered() != 2 {
		t.Errorf("head after the idle timeout: %v", head)
	}
	eventually(t, "the lease is gone", 5*time.Second, func() bool {
		_, err := f.meta.Leases().Holder(t.Context(), row.GetId())
		return errors.Is(err, coord.ErrNotFound)
	})
}

// TestANewerFencedProducerSupersedesTheOlder opens a fenced stream twice: the newer claim wins, the older
// producer is told so, and its reconnect does not beat the newer one.
func TestANewerFencedProducerSupersedesTheOlder(t *testing.T) {
	f := newFleet(t, nil)
	f.start("one")
	f.create("ledger", novav1.Mode_MODE_FENCED, express)
	older, err := f.tryOpen("one", &novav1.Open{Name: "ledger", Producer: ulid.Make().String(), Claim: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	older.append("a")
	newer, err := f.tryOpen("one", &novav1.Open{Name: "ledger", Producer: ulid.Make().String(), Claim: "c2"})
	if err != nil {
		t.Fatal(err)
	}
	if newer.opened.GetEpoch() != 2 || newer.opened.GetNext() != 1 {
		t.Errorf("the newer producer opened as %v", newer.opened)
	}
	var fenced *api.FencedError
	if m, err := older.recv(); !errors.As(err, &fenced) {
		t.Errorf("the older producer heard %v, %v; want fenced", m, err)
	}
	if _, err := f.tryOpen("one", &novav1.Open{Name: "ledger", Claim: "c1", Reopen: true}); !errors.As(err, &fenced) {
		t.Errorf("the older producer's reconnect = %v, want fenced", err)
	}
	newer.append("b")
	again, err := f.tryOpen("one", &novav1.Open{Name: "ledger", Claim: "c2", Reopen: true})
	if err != nil || again.opened.GetEpoch() != 2 {
		t.Errorf("the newer producer's reconnect = %v, %v; want epoch 2 again", again, err)
	}
	var field *api.FieldError
	if _, err := f.tryOpen("one", &novav1.Open{Name: "ledger"}); !errors.As(err, &field) {
		t.Errorf("an open without a claim = %v", err)
	}
}

// TestTheSessionBoundShedsTheNextHandle holds --max-producer-sessions to its word.
func TestTheSessionBoundShedsTheNextHandle(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.MaxProducerSessions = 2 })
	f.start("one")
	f.create("orders", anyMode, standard)
	p := f.open("one", "orders")
	f.open("one", "orders")
	var bound *api.BoundError
	if _, err := f.tryOpen("one", &novav1.Open{Name: "orders"}); !errors.As(err, &bound) || bound.Name != "max-producer-sessions" || bound.Limit != 2 || bound.RetryAfter == 0 {
		t.Fatalf("the third handle = %v, want the bound", err)
	}
	p.close()
	eventually(t, "a handle that closed makes room", 5*time.Second, func() bool {
		_, err := f.tryOpen("one", &novav1.Open{Name: "orders"})
		return err == nil
	})
}

// TestAbsorbMovesTheFloor publishes segments while the stream is led, and moves the chain's floor past
// what they cover.
func TestAbsorbMovesTheFloor(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.AbsorbInterval, c.AbsorbAge = 20*time.Millisecond, 50*time.Millisecond })
	f.start("one")
	row := f.create("orders", anyMode, express)
	p := f.open("one", "orders")
	var want []string
	for i := range 30 {
		v := fmt.Sprint("v", i)
		p.append(v)
		want = append(want, v)
	}
	eventually(t, "everything is covered, without a release", 5*time.Second, func() bool { return f.head(row).GetCovered() == 30 })
	if epoch.CleanlyReleased(f.head(row)) {
		t.Error("an absorb left a clean-release mark")
	}
	chain := f.head(row).GetHolder().GetChain()
	eventually(t, "the floor is past all slots", 5*time.Second, func() bool {
		c := &novav1.ChainRow{}
		_, err := f.meta.Rows().Get(t.Context(), coord.ChainKey(chain), c)
		return err == nil && c.GetFloor() == f.stars["one"].current().chains[express].writer.State().Next
	})
	if diff := cmp.Diff(want, f.read("one", "orders", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
