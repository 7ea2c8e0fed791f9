package orderlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/oxia-db/oxia/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func mustOpen(t fataler, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func openForTest(t *testing.T, o Options) *Log {
	t.Helper()
	l := mustOpen(t, o)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func logEntry(offset int64) *proto.LogEntry {
	return &proto.LogEntry{Term: 1, Offset: offset, Value: fmt.Appendf(nil, "value %d", offset), Timestamp: uint64(offset)}
}

func mustAppend(t fataler, l *Log, offset int64) {
	t.Helper()
	if err := l.Append(logEntry(offset)); err != nil {
		t.Fatalf("append %d: %v", offset, err)
	}
}

// content reads the log in both directions and returns its offsets.
func content(t fataler, l *Log) []int64 {
	t.Helper()
	offsets := []int64{}
	forward, err := l.NewReader(max(l.FirstOffset(), 0) - 1)
	if err != nil {
		t.Fatalf("reader: %v", err)
	}
	for forward.HasNext() {
		e, err := forward.ReadNext()
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if want := logEntry(e.Offset); string(e.Value) != string(want.Value) || e.Timestamp != want.Timestamp {
			t.Fatalf("entry %d holds %q at %d", e.Offset, e.Value, e.Timestamp)
		}
		offsets = append(offsets, e.Offset)
	}
	backward, err := l.NewReverseReader()
	if err != nil {
		t.Fatalf("reverse reader: %v", err)
	}
	for i := len(offsets) - 1; i >= 0; i-- {
		if e, err := backward.ReadNext(); err != nil || e.Offset != offsets[i] {
			t.Fatalf("backwards at %d: %v, %v", offsets[i], e, err)
		}
	}
	if backward.HasNext() {
		t.Fatalf("the way back goes on before the first entry")
	}
	return offsets
}

func TestSwappedAppendsAreWrittenAndAnsweredInOrder(t *testing.T) {
	for name, sync := range map[string]bool{"with sync": true, "without sync": false} {
		t.Run(name, func(t *testing.T) { testSwappedAppends(t, sync) })
	}
}

func testSwappedAppends(t *testing.T, synced bool) {
	const writers, each = 16, 200
	o := Options{Dir: t.TempDir(), Applied: -1, Sync: synced, SegmentBytes: 4 << 10}
	l := openForTest(t, o)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)

	var next atomic.Int64
	var answered []int64 // appended by the committer alone
	var wg, answers sync.WaitGroup
	answers.Add(writers * each)
	for w := range writers {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(w)))
			for range each {
				offset := next.Add(1) - 1
				for range dice.IntN(200) { // lose the way between taking the offset and appending
					_ = dice.Int()
				}
				l.AppendAndSync(logEntry(offset), func(err error) {
					if err != nil {
						t.Errorf("append %d: %v", offset, err)
					}
					answered = append(answered, offset)
					answers.Done()
				})
			}
		})
	}
	wg.Wait()
	answers.Wait()

	want := make([]int64, writers*each)
	for i := range want {
		want[i] = int64(i)
	}
	if diff := cmp.Diff(want, answered); diff != "" {
		t.Fatalf("answers (-want +got):\n%s", diff)
	}
	if l.Segments() < 10 {
		t.Errorf("%d segments: the test is to cross many", l.Segments())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, content(t, openForTest(t, o))); diff != "" {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
}

func TestLateNeighbourWithinTheTimeIsNoFailure(t *testing.T) {
	l := openForTest(t, Options{Dir: t.TempDir(), Applied: -1, GapTimeout: time.Hour})
	answers := make(chan int64, 3)
	for _, offset := range []int64{2, 1, 0} {
		l.AppendAndSync(logEntry(offset), func(err error) {
			if err != nil {
				t.Error(err)
			}
			answers <- offset
		})
	}
	for want := range int64(3) {
		if got := <-answers; got != want {
			t.Errorf("answer %d is for %d", want, got)
		}
	}
}

// spyFlush makes l's syncs go through f.
func spyFlush(t *testing.T, l *Log, f func(file *os.File) error) {
	t.Helper()
	if err := l.do(context.Background(), func() error { l.flush = f; return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestNoEntryIsAnsweredBeforeItIsSynced(t *testing.T) {
	l := openForTest(t, Options{Dir: t.TempDir(), Applied: -1, Sync: true, SegmentBytes: 2 << 10})
	synced := map[string]int64{} // the last synced entry of each file; the committer's
	spyFlush(t, l, func(file *os.File) error {
		for _, s := range l.segments {
			if s.file == file {
				synced[s.path] = s.last()
			}
		}
		return flush(file)
	})
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 100 {
				offset := next.Add(1) - 1
				answer := make(chan error, 1)
				l.AppendAndSync(logEntry(offset), func(err error) {
					for _, s := range l.segments {
						if s.base <= offset && offset <= s.last() && synced[s.path] < offset {
							t.Errorf("entry %d was answered; of its segment, %d is synced", offset, synced[s.path])
						}
					}
					answer <- err
				})
				if err := <-answer; err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(synced) < 10 {
		t.Errorf("%d segments were synced: the test is to cross many", len(synced))
	}
}

func TestCloseAnswersEveryEntryAndThenNoneAnyMore(t *testing.T) {
	l := openForTest(t, Options{Dir: t.TempDir(), Applied: -1, Sync: true})
	var answered, failed atomic.Int64
	for offset := range int64(500) {
		l.AppendAndSync(logEntry(offset), func(err error) {
			if err != nil {
				t.Errorf("entry %d was queued in order before the close: %v", offset, err)
			}
			answered.Add(1)
		})
	}
	l.AppendAndSync(logEntry(501), func(err error) { // 500 is missing: it can never be written
		if err != nil {
			failed.Add(1)
		}
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if answered.Load() != 500 || failed.Load() != 1 {
		t.Errorf("when Close returned, %d of 500 were answered, and %d of 1 refused", answered.Load(), failed.Load())
	}
	if err := l.Append(logEntry(500)); !errors.Is(err, errClosed) {
		t.Errorf("append after close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := l.Clear(); !errors.Is(err, errClosed) {
		t.Errorf("clear after close: %v", err)
	}
}

func TestTruncationAnswersWhatWaited(t *testing.T) {
	l := openForTest(t, Options{Dir: t.TempDir(), Applied: -1, GapTimeout: time.Hour})
	for offset := range int64(5) {
		mustAppend(t, l, offset)
	}
	answer := make(chan error, 1)
	l.AppendAndSync(logEntry(7), func(err error) { answer <- err })
	if last, err := l.TruncateLog(2); err != nil || last != 2 {
		t.Fatalf("truncate: %d, %v", last, err)
	}
	if err := <-answer; !errors.Is(err, ErrTruncated) {
		t.Errorf("the waiting entry was answered with %v", err)
	}
	mustAppend(t, l, 3)
}
