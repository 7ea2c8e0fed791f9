package orderlog

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The log against a model that is two numbers: whatever is done to it, and however often it is closed and
// opened, it holds exactly the entries from first to last, and takes last+1 next.
func TestLogHoldsWhatItsModelHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "orderlog")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		o := Options{Dir: dir, SegmentBytes: rapid.Int64Range(100, 600).Draw(t, "segment bytes"), Applied: -1}
		l := mustOpen(t, o)
		defer func() { _ = l.Close() }()
		first, last := int64(0), int64(-1) // empty when last < first
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "n") {
					last++
					mustAppend(t, l, last)
				}
			},
			"append a bad offset": func(t *rapid.T) {
				if last < 0 {
					t.Skip()
				}
				if err := l.Append(logEntry(rapid.Int64Range(0, last).Draw(t, "offset"))); err == nil {
					t.Fatal("an offset was taken twice")
				}
			},
			"truncate": func(t *rapid.T) {
				to := rapid.Int64Range(-1, last+2).Draw(t, "to")
				if _, err := l.TruncateLog(to); err != nil {
					t.Fatal(err)
				}
				last = min(last, to)
				if last < first { // nothing is left; an empty log begins where the next entry is
					first = last + 1
				}
			},
			"clear": func(t *rapid.T) {
				if err := l.Clear(); err != nil {
					t.Fatal(err)
				}
				last += rapid.Int64Range(0, 5).Draw(t, "jump")
				first = last + 1
				last++
				mustAppend(t, l, last) // any offset may follow
			},
			"trim": func(t *rapid.T) {
				to := rapid.Int64Range(-1, last).Draw(t, "to")
				if err := l.Trim(to); err != nil {
					t.Fatal(err)
				}
				if got := l.FirstOffset(); last >= first && (got < first || got > max(to+1, first) || got > last) {
					t.Fatalf("trimmed to %d, the log begins at %d; it was %d to %d", to, got, first, last)
				}
				if last >= first {
					first = l.FirstOffset()
				}
			},
			"reopen": func(t *rapid.T) {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				o.Applied = first - 1
				if last < first {
					// An empty log forgets where it was. The leader's never is once it has an entry.
					first, last, o.Applied = 0, -1, -1
				}
				l = mustOpen(t, o)
			},
			"": func(t *rapid.T) {
				want := []int64{}
				for i := first; i <= last; i++ {
					want = append(want, i)
				}
				if diff := cmp.Diff(want, content(t, l)); diff != "" {
					t.Fatalf("content (-want +got):\n%s", diff)
				}
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}
