package flightlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testChain = "star-1/01JZZZZZZZZZZZZZZZZZZZZZZZ/express"

// streamID is a stream's id, the same for the same number.
func streamID(n int) string {
	var id ulid.ULID
	id[0], id[14], id[15] = 1, byte(n>>8), byte(n)
	return id.String()
}

// makeBatch is one batch of records whose bytes say what they are.
func makeBatch(stream int, base uint64, count uint32, size int) flightlog.Batch {
	b := []byte(fmt.Sprintf("stream %d base %d|", stream, base))
	for len(b) < size {
		b = append(b, byte('a'+len(b)%26))
	}
	return flightlog.Batch{Stream: streamID(stream), Epoch: 1, Base: base, Count: count, CRC: batch.CRC(b), Records: b}
}

// log is what a writer's callbacks said.
type log struct {
	mu      sync.Mutex
	commits []flightlog.Committed
	deposed []error
	missed  []uint64
	ended   bool // OnDeposed was called
	late    int  // commits told after it
}

func (l *log) slots() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var slots []uint64
	for _, c := range l.commits {
		slots = append(slots, c.Slot)
	}
	return slots
}

func (l *log) batches() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.commits {
		n += len(c.Batches)
	}
	return n
}

func (l *log) deposedWith() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.deposed...)
}

func (l *log) missedSlots() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]uint64(nil), l.missed...)
}

// newWriter starts a writer over copies whose callbacks go to the log.
func newWriter(t testing.TB, copies *flightlog.Copies, change ...func(*flightlog.WriterConfig)) (*flightlog.Writer, *log) {
	t.Helper()
	l := &log{}
	cfg := flightlog.WriterConfig{
		Chain: testChain, Copies: copies, Linger: 2 * time.Millisecond,
		OnCommit: func(c flightlog.Committed) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.commits = append(l.commits, c)
			if l.ended {
				l.late++
			}
		},
		OnDeposed: func(err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.deposed, l.ended = append(l.deposed, err), true
		},
		OnMissed: func(_ string, slot uint64, _ error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.missed = append(l.missed, slot)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	w := flightlog.NewWriter(cfg)
	t.Cleanup(func() { w.Abort(); w.Wait() })
	return w, l
}

func mustAdd(t testing.TB, w *flightlog.Writer, b flightlog.Batch) {
	t.Helper()
	if err := w.Add(t.Context(), b); err != nil {
		t.Fatalf("add: %v", err)
	}
}

// holders are the copies that hold the slot's flight, whole and undamaged.
func holders(t testing.TB, copies []*flightlogtest.Copy, slot uint64) int {
	t.Helper()
	n := 0
	for _, c := range copies {
		c.Inject(nil)
		b, err := c.Get(context.Background(), flightlog.SlotKey(testChain, slot))
		if errors.Is(err, flightlog.ErrAbsent) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if p, err := flightlog.Verify(b); err == nil && p.Slot == slot && p.Chain == testChain {
			n++
		}
	}
	return n
}

func express(t testing.TB) (*flightlog.Copies, []*flightlogtest.Copy) {
	return flightlogtest.Mem(t, novav1.Class_CLASS_EXPRESS, 3)
}
