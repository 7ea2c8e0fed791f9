package orderlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeSegment makes a segment file by hand: entries first to last, each with the synced mark that synced
// gives it. It returns where each record begins.
func writeSegment(t fataler, dir string, first, last int64, synced func(offset int64) int64) []int {
	t.Helper()
	buf := []byte(segmentMagic)
	var begins []int
	for offset := first; offset <= last; offset++ {
		payload, err := logEntry(offset).MarshalVT()
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		begins = append(begins, len(buf))
		buf = record{offset: offset, synced: synced(offset), payload: payload}.appendTo(buf)
	}
	begins = append(begins, len(buf))
	buf = append(buf, make([]byte, 512)...) // what was reserved and not yet written
	if err := os.WriteFile(segmentPath(dir, first), buf, 0o644); err != nil {
		t.Fatalf("%v", err)
	}
	return begins
}

func offsets(first, last int64) []int64 {
	all := []int64{}
	for o := first; o <= last; o++ {
		all = append(all, o)
	}
	return all
}

// damage flips a bit in the middle of the record of offset, in a closed log of one segment.
func damage(t *testing.T, o Options, offset int64) {
	t.Helper()
	segments, err := recoverSegments(o)
	if err != nil {
		t.Fatal(err)
	}
	s := segments[0]
	at := s.positions[offset-s.base] + headerBytes + 1
	b := make([]byte, 1)
	if _, err := s.file.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := s.file.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := closeAll(segments); err != nil {
		t.Fatal(err)
	}
}

// What the log writes about its syncs tells a tear from damage: these three write with the log itself.
func TestSyncedMarks(t *testing.T) {
	tests := map[string]struct {
		write func(t *testing.T, o Options)
		bad   int64
		err   error
	}{
		"an entry that was synced with later ones behind it is damaged": {
			write: func(t *testing.T, o Options) {
				o.Sync = true
				l := mustOpen(t, o)
				for offset := range int64(8) {
					mustAppend(t, l, offset)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}, bad: 4, err: ErrDamaged,
		},
		"so is one that was synced at an opening": {
			write: func(t *testing.T, o Options) {
				writeSegment(t, o.Dir, 0, 5, func(int64) int64 { return -1 }) // by a process that was killed
				l := mustOpen(t, o)
				mustAppend(t, l, 6)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}, bad: 4, err: ErrDamaged,
		},
		"one that took the place of a truncated synced one was itself never synced": {
			write: func(t *testing.T, o Options) {
				l := mustOpen(t, o)
				for offset := range int64(8) {
					mustAppend(t, l, offset)
				}
				if err := l.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := l.TruncateLog(2); err != nil {
					t.Fatal(err)
				}
				for offset := int64(3); offset < 8; offset++ {
					mustAppend(t, l, offset)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}, bad: 4,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), Applied: -1}
			tc.write(t, o)
			damage(t, o.withDefaults(), tc.bad)
			l, err := Open(o)
			if !errors.Is(err, tc.err) {
				t.Fatalf("open: %v, want %v", err, tc.err)
			}
			if tc.err == nil {
				defer l.Close()
				if diff := cmp.Diff(offsets(0, tc.bad-1), content(t, l)); diff != "" {
					t.Errorf("content (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestOpening(t *testing.T) {
	durable := func(o int64) int64 { return o - 1 }
	write := func(t *testing.T, dir string, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		make    func(t *testing.T, dir string)
		applied int64
		sync    bool
		want    []int64
		next    int64
		err     error
	}{
		"an empty folder takes entry 0": {
			make: func(*testing.T, string) {}, applied: -1, want: []int64{}, next: 0,
		},
		"an empty segment file from a crash at its creation is dropped": {
			make: func(t *testing.T, dir string) {
				writeSegment(t, dir, 0, 4, durable)
				write(t, dir, filepath.Base(segmentPath(dir, 5)), "")
			}, applied: -1, want: offsets(0, 4), next: 5,
		},
		"so is one with half its magic": {
			make: func(t *testing.T, dir string) {
				writeSegment(t, dir, 0, 4, durable)
				write(t, dir, filepath.Base(segmentPath(dir, 5)), segmentMagic[:7])
			}, applied: -1, want: offsets(0, 4), next: 5,
		},
		"segments that the store has are dropped unread": {
			make: func(t *testing.T, dir string) {
				write(t, dir, filepath.Base(segmentPath(dir, 0)), "rubbish")
				writeSegment(t, dir, 5, 9, durable)
			}, applied: 6, want: offsets(5, 9), next: 10,
		},
		"a missing segment is damage": {
			make: func(t *testing.T, dir string) {
				writeSegment(t, dir, 0, 4, durable)
				writeSegment(t, dir, 8, 9, durable)
			}, applied: -1, err: ErrDamaged,
		},
		"a missing first segment is damage": {
			make:    func(t *testing.T, dir string) { writeSegment(t, dir, 5, 9, durable) },
			applied: 3, err: ErrDamaged,
		},
		"a torn segment that is not the last is damage": {
			make: func(t *testing.T, dir string) {
				writeSegment(t, dir, 0, 3, durable)
				f, err := os.OpenFile(segmentPath(dir, 0), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteString("x"); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				writeSegment(t, dir, 4, 9, durable)
			}, applied: -1, err: ErrDamaged,
		},
		"an intact record that does not follow its neighbour is no part of the log": {
			make: func(t *testing.T, dir string) {
				writeSegment(t, dir, 0, 4, durable)
				writeSegment(t, dir, 8, 8, func(int64) int64 { return -1 })
				stray, err := os.ReadFile(segmentPath(dir, 8))
				if err != nil {
					t.Fatal(err)
				}
				kept, err := os.ReadFile(segmentPath(dir, 0))
				if err != nil {
					t.Fatal(err)
				}
				kept = append(bytes.TrimRight(kept, "\x00"), make([]byte, 7)...) // the time stamp ends in zeros
				write(t, dir, filepath.Base(segmentPath(dir, 0)), string(kept)+string(stray[len(segmentMagic):]))
				if err := os.Remove(segmentPath(dir, 8)); err != nil {
					t.Fatal(err)
				}
			}, applied: -1, want: offsets(0, 4), next: 5,
		},
		"a synced log behind the store was lost": {
			make:    func(t *testing.T, dir string) { writeSegment(t, dir, 0, 4, durable) },
			applied: 7, sync: true, err: ErrBehind,
		},
		"an unsynced log behind the store moves up, and gives no offset out twice": {
			make:    func(t *testing.T, dir string) { writeSegment(t, dir, 0, 4, durable) },
			applied: 7, want: []int64{7}, next: 8,
		},
		"an unsynced log that is gone moves up": {
			make: func(*testing.T, string) {}, applied: 7, want: []int64{7}, next: 8,
		},
		"a file of another kind is left alone": {
			make: func(t *testing.T, dir string) {
				writeSegment(t, dir, 0, 1, durable)
				write(t, dir, "note.txt", "hello")
			}, applied: -1, want: offsets(0, 1), next: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tc.make(t, dir)
			o := Options{Dir: dir, Applied: tc.applied, Sync: tc.sync}
			l, err := Open(o)
			if !errors.Is(err, tc.err) {
				t.Fatalf("open: %v, want %v", err, tc.err)
			}
			if tc.err != nil {
				return
			}
			for range 2 { // what opening did must itself survive an opening
				got := []int64{}
				r, err := l.NewReader(max(l.FirstOffset(), 0) - 1)
				if err != nil {
					t.Fatal(err)
				}
				for r.HasNext() {
					e, err := r.ReadNext()
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, e.Offset)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("content (-want +got):\n%s", diff)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = mustOpen(t, o)
			}
			mustAppend(t, l, tc.next)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
