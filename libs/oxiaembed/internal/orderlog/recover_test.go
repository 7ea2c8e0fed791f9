package orderlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

// A tear in entries that were never durable costs those entries and nothing else, wherever it is, whatever
// lies there now, and whether or not intact records lie behind it: the disk may have kept later pages only.
func TestTornTailIsCutOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "orderlog")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		last := rapid.Int64Range(1, 30).Draw(t, "last")
		durable := rapid.Int64Range(-1, last-1).Draw(t, "durable")
		begins := writeSegment(t, dir, 0, last, func(o int64) int64 { return min(durable, o-1) })

		bad := rapid.Int64Range(durable+1, last).Draw(t, "first bad entry")
		content0, err := os.ReadFile(segmentPath(dir, 0))
		if err != nil {
			t.Fatal(err)
		}
		before := string(content0[begins[bad]:begins[bad+1]])
		from := begins[bad]
		switch rapid.SampledFrom([]string{"flip", "garbage", "zeros behind", "file ends"}).Draw(t, "tear") {
		case "flip":
			i := rapid.IntRange(from, begins[bad+1]-1).Draw(t, "byte")
			content0[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		case "garbage":
			noise := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "noise")
			content0 = append(content0[:from:from], noise...)
		case "zeros behind":
			i := rapid.IntRange(from+1, begins[bad+1]-1).Draw(t, "byte")
			clear(content0[i:])
		case "file ends":
			content0 = content0[:rapid.IntRange(from, begins[bad+1]-1).Draw(t, "byte")]
		}
		if len(content0) >= begins[bad+1] && string(content0[from:begins[bad+1]]) == before {
			t.Skip("the tear wrote what was there")
		}
		if err := os.WriteFile(segmentPath(dir, 0), content0, 0o644); err != nil {
			t.Fatal(err)
		}

		o := Options{Dir: dir, Applied: -1}
		l := mustOpen(t, o)
		if diff := cmp.Diff(offsets(0, bad-1), content(t, l)); diff != "" {
			t.Fatalf("content (-want +got):\n%s", diff)
		}
		mustAppend(t, l, bad)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, o) // nothing of the old tail comes back behind the new entry
		defer func() { _ = l.Close() }()
		if diff := cmp.Diff(offsets(0, bad), content(t, l)); diff != "" {
			t.Fatalf("after one more entry (-want +got):\n%s", diff)
		}
	})
}

// An unreadable entry that a later record shows to have been durable is a loss, and must not pass as a tear.
func TestDamagedDurableEntryIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "orderlog")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		last := rapid.Int64Range(1, 30).Draw(t, "last")
		begins := writeSegment(t, dir, 0, last, func(o int64) int64 { return o - 1 })
		bad := rapid.Int64Range(0, last-1).Draw(t, "bad entry")
		file, err := os.ReadFile(segmentPath(dir, 0))
		if err != nil {
			t.Fatal(err)
		}
		file[rapid.IntRange(begins[bad], begins[bad+1]-1).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if err := os.WriteFile(segmentPath(dir, 0), file, 0o644); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(Options{Dir: dir, Applied: -1}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("opened: %v, %v", l, err)
		}
		// With everything up to the last durable entry in the store, the damage costs nothing.
		l, err := Open(Options{Dir: dir, Applied: last - 1})
		if err != nil {
			t.Fatalf("the store has what is damaged: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
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
