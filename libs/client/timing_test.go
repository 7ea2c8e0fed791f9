package client_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

// bubble runs a test on a fleet and a client in a bubble of time: what waits costs nothing, and how long it
// waited is exact.
func bubble(t *testing.T, opts clienttest.Options, test func(t *testing.T, f *clienttest.Fleet, c *client.Client)) {
	synctest.Test(t, func(t *testing.T) {
		opts.NoNetwork = true
		f := clienttest.New(t, opts)
		f.Create("s", novav1.Mode_MODE_ANY)
		c, err := client.Dial(t.Context(), client.Config{Gateway: f.Gateway(), DialOptions: f.DialOptions()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, f, c)
	})
}

// hours bounds a wait in a bubble, where pings alone would let time go on for ever.
func hours(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// wantAfter checks how long it took, to the nanosecond.
func wantAfter(t *testing.T, begun time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(begun); took != want {
		t.Errorf("it took %v, want %v", took, want)
	}
}

// wantAt is wantBase by the bubble's time.
func wantAt(t *testing.T, p *client.Pending, want uint64) {
	t.Helper()
	if got, err := p.Wait(hours(t)); err != nil || got != want {
		t.Errorf("Wait returned %d, %v; want %d", got, err, want)
	}
}

// faults is a scripted source of faults: the nth batch meets the nth fault, later ones the last.
func faults(list ...clienttest.Fault) func() clienttest.Fault {
	var n atomic.Int64
	return func() clienttest.Fault { return list[min(int(n.Add(1)), len(list))-1] }
}

func mustClose(t *testing.T, p *client.Producer) {
	t.Helper()
	if err := p.Close(hours(t)); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func giveUp(p *client.Producer) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(ctx)
}

func TestABatchWaitsForTheLingerAndNoLonger(t *testing.T) {
	bubble(t, clienttest.Options{}, func(t *testing.T, f *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{Linger: 2 * time.Millisecond})
		begun := time.Now()
		first := p.Append(t.Context(), value("a"))
		time.Sleep(time.Millisecond)
		second := p.Append(t.Context(), value("b"))
		wantAt(t, first, 0)
		wantAt(t, second, 1)
		wantAfter(t, begun, 2*time.Millisecond)
		if n := len(f.Batches("s")); n != 1 {
			t.Errorf("%d batches, want 1", n)
		}
		mustClose(t, p)
	})
}

func TestAFullBatchDoesNotWaitForTheLinger(t *testing.T) {
	bubble(t, clienttest.Options{}, func(t *testing.T, _ *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{Linger: time.Hour, MaxBatchBytes: 100})
		begun := time.Now()
		wantAt(t, p.Append(t.Context(), value("%0100d", 1)), 0)
		wantAfter(t, begun, 0)
		mustClose(t, p)
	})
}

func TestRecordsGatherWhileTheWindowIsFull(t *testing.T) {
	bubble(t, clienttest.Options{Fault: faults(clienttest.LateAck)}, func(t *testing.T, f *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{WindowBytes: 1, Linger: time.Nanosecond})
		for range 1000 {
			p.Append(t.Context(), value("a"))
			time.Sleep(10 * time.Microsecond)
		}
		mustClose(t, p)
		// Each answer takes a millisecond, so a thousand records over ten of them are few batches.
		if n := len(f.Batches("s")); n > 30 {
			t.Errorf("%d batches", n)
		}
	})
}

func TestTheDeliveryTimeoutIsTwoMinutes(t *testing.T) {
	for name, tc := range map[string]struct {
		fault   clienttest.Fault
		unknown bool
	}{
		"sent and never answered": {clienttest.Swallow, true},
		"refused again and again": {clienttest.Refuse, true}, // the client cannot know that nothing was taken
		"at a bound":              {clienttest.Overload, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, clienttest.Options{Fault: faults(tc.fault)}, func(t *testing.T, _ *clienttest.Fleet, c *client.Client) {
				p := produce(t, c, "s", client.ProducerOptions{})
				begun := time.Now()
				first := p.Append(t.Context(), value("a"))
				time.Sleep(time.Minute)
				second := p.Append(t.Context(), value("b"))
				_, err := first.Wait(hours(t))
				wantAfter(t, begun, 2*time.Minute)
				if !errors.Is(err, client.ErrDeliveryTimeout) || errors.Is(err, client.ErrOutcomeUnknown) != tc.unknown {
					t.Errorf("the first record: %v", err)
				}
				if _, err := second.Wait(hours(t)); !errors.Is(err, client.ErrDeliveryTimeout) {
					t.Errorf("the record behind it: %v", err)
				}
				wantAfter(t, begun, 2*time.Minute)
				giveUp(p)
			})
		})
	}
}

func TestASilentHandleIsOpenedAgainAfterThirtySeconds(t *testing.T) {
	bubble(t, clienttest.Options{Fault: faults(clienttest.Swallow, clienttest.None)}, func(t *testing.T, f *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{})
		begun := time.Now()
		wantAt(t, p.Append(t.Context(), value("a")), 0)
		wantAfter(t, begun, 30*time.Second+time.Millisecond) // the linger
		if opens, _ := f.Opens(); len(opens) != 2 {
			t.Errorf("%d opens, want 2", len(opens))
		}
		mustClose(t, p)
	})
}

func TestAnIdleHandleIsLeftOpen(t *testing.T) {
	bubble(t, clienttest.Options{}, func(t *testing.T, f *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{})
		wantAt(t, p.Append(t.Context(), value("a")), 0)
		time.Sleep(time.Hour)
		wantAt(t, p.Append(t.Context(), value("b")), 1)
		if opens, _ := f.Opens(); len(opens) != 1 {
			t.Errorf("%d opens, want 1", len(opens))
		}
		mustClose(t, p)
	})
}

func TestAProducerComesBackWhenItsLeaderAsksItTo(t *testing.T) {
	bubble(t, clienttest.Options{Fault: faults(clienttest.Overload, clienttest.None), RetryAfter: 7 * time.Second},
		func(t *testing.T, _ *clienttest.Fleet, c *client.Client) {
			p := produce(t, c, "s", client.ProducerOptions{})
			begun := time.Now()
			wantAt(t, p.Append(t.Context(), value("a")), 0)
			wantAfter(t, begun, 7*time.Second+time.Millisecond)
			mustClose(t, p)
		})
}

func TestReopensSlowDown(t *testing.T) {
	bubble(t, clienttest.Options{Fault: faults(clienttest.Refuse)}, func(t *testing.T, f *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{})
		_, _ = p.Append(t.Context(), value("a")).Wait(hours(t))
		if opens, _ := f.Opens(); len(opens) < 60 || len(opens) > 130 {
			t.Errorf("%d opens in two minutes; at 2 s apart there are about 60 to 130", len(opens))
		}
		giveUp(p)
	})
}

func TestTheFirstOpenGivesUpAfterThirtySeconds(t *testing.T) {
	bubble(t, clienttest.Options{}, func(t *testing.T, f *clienttest.Fleet, _ *client.Client) {
		c, err := client.Dial(t.Context(), client.Config{Gateway: "nobody:1", DialOptions: f.DialOptions()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		begun := time.Now()
		if _, err := c.Producer(t.Context(), "s", client.ProducerOptions{}); err == nil {
			t.Error("a producer without a fleet")
		}
		wantAfter(t, begun, 30*time.Second)
		r, err := c.Reader(t.Context(), "s", client.ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		begun = time.Now()
		var unavailable *api.UnavailableError
		if _, err := r.Next(hours(t)); !errors.As(err, &unavailable) {
			t.Errorf("Next: %v", err)
		}
		if took := time.Since(begun); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("the reader gave up after %v, want 30 s and at most one pause", took)
		}
	})
}

func TestAReaderAsksAgainWhereAnAnswerIsLate(t *testing.T) {
	var hang atomic.Int64
	opts := clienttest.Options{ReadHang: func() bool { return hang.Add(1) == 2 }}
	bubble(t, opts, func(t *testing.T, _ *clienttest.Fleet, c *client.Client) {
		p := produce(t, c, "s", client.ProducerOptions{})
		for i := range uint64(3) {
			wantAt(t, p.Append(t.Context(), value("a")), i)
		}
		mustClose(t, p)
		r, err := c.Reader(t.Context(), "s", client.ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		begun := time.Now()
		for i := range uint64(3) {
			if rec, err := r.Next(hours(t)); err != nil || rec.Sequence != i {
				t.Fatalf("Next returned %d, %v; want %d", rec.Sequence, err, i)
			}
		}
		if _, err := r.Next(hours(t)); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		wantAfter(t, begun, 30*time.Second)
	})
}

func TestAFollowerWaitsForHours(t *testing.T) {
	bubble(t, clienttest.Options{}, func(t *testing.T, _ *clienttest.Fleet, c *client.Client) {
		r, err := c.Reader(t.Context(), "s", client.ReaderOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p := produce(t, c, "s", client.ProducerOptions{})
		time.AfterFunc(5*time.Hour, func() { p.Append(context.Background(), value("a")) })
		begun := time.Now()
		if rec, err := r.Next(hours(t)); err != nil || rec.Sequence != 0 {
			t.Errorf("Next returned %d, %v", rec.Sequence, err)
		}
		wantAfter(t, begun, 5*time.Hour+time.Millisecond)
		mustClose(t, p)
	})
}
