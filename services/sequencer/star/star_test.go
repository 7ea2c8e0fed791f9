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
	"nova.internal/libs/epoch"
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
