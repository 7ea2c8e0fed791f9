package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

func TestAppendsLieInOrder(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	var pending []*client.Pending
	for i := range 1000 {
		pending = append(pending, p.Append(t.Context(), value("%d.a", i), value("%d.b", i)))
	}
	for i, x := range pending {
		wantBase(t, x, uint64(2*i))
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := f.Values(t, "s"); len(got) != 2000 || got[2] != "1.a" || got[1999] != "999.b" {
		t.Errorf("%d values stored", len(got))
	}
}

func TestCloseFlushes(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{Linger: time.Hour})
	x := p.Append(t.Context(), value("x"))
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	wantBase(t, x, 0)
	if _, err := p.Append(t.Context(), value("y")).Wait(within(t)); !errors.Is(err, client.ErrClosed) {
		t.Errorf("append after Close: %v", err)
	}
}

func TestFlushSendsWhatLingers(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{Linger: time.Hour})
	x := p.Append(t.Context(), value("x"))
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.Done():
	default:
		t.Error("Flush returned before the record was answered")
	}
}

func TestRefusalsEndTheOpen(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	c := dial(t, f, false)
	if _, err := c.Producer(within(t), "absent", client.ProducerOptions{}); !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("an absent stream: %v", err)
	}
	var field *api.FieldError
	if _, err := c.Producer(within(t), "bad\x00name", client.ProducerOptions{}); !errors.As(err, &field) {
		t.Errorf("a bad name: %v", err)
	}
}

func TestUnreachableGatewayIsNamed(t *testing.T) {
	c, err := client.Dial(t.Context(), client.Config{Gateway: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Producer(within(t), "s", client.ProducerOptions{OpenTimeout: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v does not name the address", err)
	}
}

func TestTooLargeRecordsAreRefusedHere(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{MaxRecordBytes: 100, MaxBatchBytes: 300})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	var tooLarge *batch.TooLargeError
	if _, err := p.Append(t.Context(), value("%0101d", 1)).Wait(within(t)); !errors.As(err, &tooLarge) {
		t.Errorf("a record above the bound: %v", err)
	}
	var field *api.FieldError
	if _, err := p.Append(t.Context(), value("%080d", 1), value("%080d", 1), value("%080d", 1), value("%080d", 1)).Wait(within(t)); !errors.As(err, &field) {
		t.Errorf("records above the bound of a batch: %v", err)
	}
	wantBase(t, p.Append(t.Context(), value("small")), 0)
}

func TestARecordThatNoMessageCarriesIsRefusedHere(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{MaxRecordBytes: 1 << 30, MaxBatchBytes: 1 << 30})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	var tooLarge *batch.TooLargeError
	if _, err := p.Append(t.Context(), batch.Record{Value: make([]byte, api.MaxMessageBytes)}).Wait(within(t)); !errors.As(err, &tooLarge) {
		t.Errorf("a record above the bound of a message: %v", err)
	}
	wantBase(t, p.Append(t.Context(), batch.Record{Value: make([]byte, api.MaxMessageBytes-2<<20)}), 0)
}

func TestAppendBlocksWhileTheBufferIsFull(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{BufferBytes: 100, Linger: time.Hour})
	first := p.Append(t.Context(), value("%080d", 1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Append(ctx, value("%080d", 2)).Wait(within(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("append to a full buffer: %v", err)
	}
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	wantBase(t, first, 0)
	third := p.Append(t.Context(), value("%080d", 3))
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	wantBase(t, third, 1)
}

func TestANewerFencedProducerStopsTheOlder(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_FENCED)
	c := dial(t, f, false)
	old := produce(t, c, "s", client.ProducerOptions{})
	wantBase(t, old.Append(t.Context(), value("old")), 0)
	f.CutConnections()
	wantBase(t, old.Append(t.Context(), value("a reconnect keeps its claim")), 1)
	newer := produce(t, c, "s", client.ProducerOptions{})
	var fenced *api.FencedError
	if _, err := old.Append(within(t), value("late")).Wait(within(t)); !errors.As(err, &fenced) {
		t.Errorf("append of the superseded producer: %v", err)
	}
	wantBase(t, newer.Append(t.Context(), value("new")), 2)
}

func TestDeliveryTimeoutSaysWhetherItMayBeStored(t *testing.T) {
	var mu sync.Mutex
	fault := clienttest.None
	f := clienttest.New(t, clienttest.Options{Fault: func() clienttest.Fault {
		mu.Lock()
		defer mu.Unlock()
		return fault
	}})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{DeliveryTimeout: 300 * time.Millisecond})
	mu.Lock()
	fault = clienttest.LoseAck
	mu.Unlock()
	_, err := p.Append(t.Context(), value("x")).Wait(within(t))
	if !errors.Is(err, client.ErrDeliveryTimeout) || !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a batch without an answer: %v", err)
	}
	_, err = p.Append(t.Context(), value("y")).Wait(within(t))
	if !errors.Is(err, client.ErrDeliveryTimeout) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a record behind the failure: %v", err)
	}
	if err := p.Close(within(t)); !errors.Is(err, client.ErrDeliveryTimeout) {
		t.Errorf("Close: %v", err)
	}
}

func TestAForgottenIdleProducerGoesOnUnderANewIdentity(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	wantBase(t, p.Append(t.Context(), value("a")), 0)
	wantBase(t, p.Append(t.Context(), value("b")), 1)
	f.Forget("s")
	wantBase(t, p.Append(t.Context(), value("c")), 2)
	wantBase(t, p.Append(t.Context(), value("d")), 3)
	opens, _ := f.Opens()
	if len(opens) != 2 || opens[0].GetProducer() == opens[1].GetProducer() || !opens[1].GetReopen() {
		t.Errorf("opens: %v", opens)
	}
}

func TestBatchesInDoubtAtAForgetfulLeaderFailAsUnknown(t *testing.T) {
	var mu sync.Mutex
	var f *clienttest.Fleet
	n := 0
	f = clienttest.New(t, clienttest.Options{Fault: func() clienttest.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch n++; n {
		case 2: // stored, its answer is lost
			return clienttest.LoseAck
		case 3: // and when it comes again the leader has forgotten
			f.Forget("s")
		}
		return clienttest.None
	}})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	wantBase(t, p.Append(t.Context(), value("a")), 0)
	if _, err := p.Append(t.Context(), value("b")).Wait(within(t)); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a batch beyond the leader's memory: %v", err)
	}
	if got := f.Values(t, "s"); len(got) != 2 {
		t.Errorf("stored %v", got)
	}
}

func TestMovedNamesTheTarget(t *testing.T) {
	for name, direct := range map[string]bool{"through a gateway": false, "direct": true} {
		t.Run(name, func(t *testing.T) {
			f := clienttest.New(t, clienttest.Options{Stars: 2})
			f.Create("s", novav1.Mode_MODE_ANY)
			f.Lead("s", 0)
			p := produce(t, dial(t, f, direct), "s", client.ProducerOptions{})
			wantBase(t, p.Append(t.Context(), value("a")), 0)
			f.Lead("s", 1)
			wantBase(t, p.Append(t.Context(), value("b")), 1)
			opens, asked := f.Opens()
			last := opens[len(opens)-1]
			if last.GetRedirectedBy() != "star-0" || !last.GetReopen() || len(opens) != 2 {
				t.Errorf("the reopen is %v of %d", last, len(opens))
			}
			wantAt, wantHint := "gateway", "star-1"
			if direct {
				wantAt, wantHint = "star-1", ""
			}
			if asked[1] != wantAt || last.GetHint() != wantHint {
				t.Errorf("the reopen went to %s with hint %q", asked[1], last.GetHint())
			}
		})
	}
}

func TestDirectFollowsNotOwnerAndRemembersTheHolder(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 3})
	f.Create("s", novav1.Mode_MODE_ANY)
	f.Lead("s", 2)
	// A star as the entry: it has the Admin service too, but knows the leader.
	c := dial(t, f, true)
	p := produce(t, c, "s", client.ProducerOptions{})
	wantBase(t, p.Append(t.Context(), value("a")), 0)
	_ = p.Close(within(t))
	f.Lead("s", 1) // nobody is told: the memory is wrong now
	p = produce(t, c, "s", client.ProducerOptions{})
	wantBase(t, p.Append(t.Context(), value("b")), 1)
	opens, asked := f.Opens()
	if strings.Join(asked, " ") != "star-2 star-2 star-1" {
		t.Errorf("asked %v", asked)
	}
	if last := opens[len(opens)-1]; last.GetHops() != 1 || last.GetRedirectedBy() != "star-2" {
		t.Errorf("the redirected open is %v", last)
	}
}

func TestDirectSurvivesTheLeadersDeath(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 2})
	f.Create("s", novav1.Mode_MODE_ANY)
	f.Lead("s", 0)
	p := produce(t, dial(t, f, true), "s", client.ProducerOptions{})
	wantBase(t, p.Append(t.Context(), value("a")), 0)
	f.StopStar(0)
	wantBase(t, p.Append(t.Context(), value("b")), 1)
}

func TestAtLeastOnceStoresAgain(t *testing.T) {
	var mu sync.Mutex
	n := 0
	f := clienttest.New(t, clienttest.Options{Fault: func() clienttest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 1 {
			return clienttest.LoseAck
		}
		return clienttest.None
	}})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{AtLeastOnce: true})
	wantBase(t, p.Append(t.Context(), value("a")), 1)
	if got := f.Values(t, "s"); len(got) != 2 {
		t.Errorf("stored %v", got)
	}
}

func TestASilentHandleIsOpenedAgain(t *testing.T) {
	var mu sync.Mutex
	n := 0
	f := clienttest.New(t, clienttest.Options{Fault: func() clienttest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 1 {
			return clienttest.Swallow
		}
		return clienttest.None
	}})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{Silence: 50 * time.Millisecond})
	wantBase(t, p.Append(t.Context(), value("a")), 0)
	if opens, _ := f.Opens(); len(opens) != 2 {
		t.Errorf("%d opens, want 2", len(opens))
	}
}

func TestCloseEndsWithItsContext(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Fault: func() clienttest.Fault { return clienttest.Swallow }})
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	x := p.Append(t.Context(), value("a"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if _, err := x.Wait(within(t)); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a batch without an answer: %v", err)
	}
}
