package orderlog

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

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
