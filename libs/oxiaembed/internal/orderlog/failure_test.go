package orderlog

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLostOffsetFailsTheLogAndEveryWaitingEntry(t *testing.T) {
	told := make(chan error, 1)
	l := openForTest(t, Options{
		Dir: t.TempDir(), Applied: -1, GapTimeout: 20 * time.Millisecond,
		OnFail: func(err error) { told <- err },
	})
	mustAppend(t, l, 0)
	answers := make(chan error, 2)
	for _, offset := range []int64{2, 3} { // 1 was handed out and never comes
		l.AppendAndSync(logEntry(offset), func(err error) { answers <- err })
	}
	for range 2 {
		if err := <-answers; !errors.Is(err, ErrGap) {
			t.Errorf("an entry behind the gap was answered with %v", err)
		}
	}
	if err := <-told; !errors.Is(err, ErrGap) {
		t.Errorf("told %v", err)
	}
	if err := l.Append(logEntry(1)); !errors.Is(err, ErrGap) {
		t.Errorf("a later append was answered with %v", err)
	}
	if err := l.Err(); !errors.Is(err, ErrGap) {
		t.Errorf("the log says %v", err)
	}
}

func TestFailedWriteIsFinalAndSaysSo(t *testing.T) {
	var told atomic.Int32
	o := Options{Dir: t.TempDir(), Applied: -1, Sync: true, OnFail: func(error) { told.Add(1) }}
	l := openForTest(t, o)
	mustAppend(t, l, 0)
	// The file can no longer be written, as on a disk that became read-only.
	err := l.do(context.Background(), func() error {
		s := l.segments[0]
		readOnly, err := os.Open(s.path)
		if err != nil {
			return err
		}
		writable := s.file
		s.file = readOnly
		return writable.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{1, 2, 3} {
		if err := l.Append(logEntry(offset)); err == nil {
			t.Errorf("append %d to a read-only file was answered with success", offset)
		}
	}
	if l.Err() == nil || told.Load() != 1 {
		t.Errorf("the log says %v and told it %d times", l.Err(), told.Load())
	}
	if got := l.LastOffset(); got != 0 {
		t.Errorf("the last entry is %d, and only 0 was written", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{0}, content(t, openForTest(t, o))); diff != "" {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
}

// Behind a failed sync nobody knows what the disk holds, and a second sync that succeeds proves nothing.
func TestFailedSyncIsFinal(t *testing.T) {
	l := openForTest(t, Options{Dir: t.TempDir(), Applied: -1, Sync: true})
	mustAppend(t, l, 0)
	broken := errors.New("broken disk")
	syncs := 0
	spyFlush(t, l, func(*os.File) error {
		syncs++
		if syncs == 1 {
			return broken
		}
		return nil
	})
	for offset := range int64(3) {
		if err := l.Append(logEntry(offset + 1)); !errors.Is(err, broken) {
			t.Errorf("append %d: %v", offset+1, err)
		}
	}
	if got := l.LastOffset(); got != 0 {
		t.Errorf("the last entry is %d: what was not synced shows", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if syncs != 1 {
		t.Errorf("%d syncs: one was tried behind the failure", syncs)
	}
}
