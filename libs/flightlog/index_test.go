package flightlog_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"nova.internal/libs/flightlog"
)

// indexed is one batch in the model: a list of all that was ever written.
type indexed struct {
	ref  flightlog.BatchRef
	at   time.Time
	done bool
}

// indexModel is the flight index, the slow way.
type indexModel struct {
	all   []*indexed
	times []time.Time // of each slot
}

func (m *indexModel) finish(stream string, done func(flightlog.BatchRef) bool) {
	for _, i := range m.all {
		if i.ref.Stream == stream && done(i.ref) {
			i.done = true
		}
	}
}

func (m *indexModel) floor() uint64 {
	floor := uint64(len(m.times))
	for _, i := range m.all {
		if !i.done {
			floor = min(floor, i.ref.Slot)
		}
	}
	return floor
}

func (m *indexModel) refs(stream string) (refs []flightlog.BatchRef) {
	for _, i := range m.all {
		if i.ref.Stream == stream && !i.done {
			refs = append(refs, i.ref)
		}
	}
	return refs
}

func (m *indexModel) due(now time.Time, age time.Duration, n int) []string {
	oldest := map[string]time.Time{}
	for _, i := range m.all {
		if _, seen := oldest[i.ref.Stream]; !seen && !i.done {
			oldest[i.ref.Stream] = i.at
		}
	}
	var due []string
	for s, at := range oldest {
		if now.Sub(at) >= age || len(m.refs(s)) >= n {
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(oldest[a].Compare(oldest[b]), cmp.Compare(a, b)) })
	return due
}

func TestTheIndexIsWhatAListOfEverythingWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x flightlog.Index
		m := &indexModel{}
		now := time.Unix(1000, 0)
		next := map[string]uint64{}
		epochs := map[string]uint64{}
		stream := rapid.Custom(func(t *rapid.T) string { return streamID(rapid.IntRange(0, 4).Draw(t, "stream")) })
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
				var refs []flightlog.BatchRef
				for range rapid.IntRange(1, 4).Draw(t, "batches") {
					s := stream.Draw(t, "of")
					if rapid.IntRange(0, 4).Draw(t, "epoch rises") == 0 {
						epochs[s]++
					}
					r := flightlog.BatchRef{Stream: s, Slot: uint64(len(m.times)), Epoch: epochs[s], Base: next[s], Count: rapid.Uint32Range(1, 5).Draw(t, "count")}
					next[s] = r.End()
					refs = append(refs, r)
					m.all = append(m.all, &indexed{ref: r, at: now})
				}
				x.Add(uint64(len(m.times)), now, refs)
				m.times = append(m.times, now)
			},
			"cover": func(t *rapid.T) {
				s := stream.Draw(t, "stream")
				covered := rapid.Uint64Range(0, next[s]+2).Draw(t, "covered")
				holder := rapid.Uint64Range(0, epochs[s]+1).Draw(t, "holder")
				x.Covered(s, covered, holder)
				m.finish(s, func(r flightlog.BatchRef) bool { return r.End() <= covered || r.Epoch < holder })
			},
			"gone": func(t *rapid.T) {
				s := stream.Draw(t, "stream")
				x.Gone(s)
				m.finish(s, func(flightlog.BatchRef) bool { return true })
			},
			"": func(t *rapid.T) {
				floor := m.floor()
				if x.Floor() != floor || x.Slots() != len(m.times)-int(floor) {
					t.Fatalf("floor %d and %d slots above, want %d and %d", x.Floor(), x.Slots(), floor, len(m.times)-int(floor))
				}
				want := time.Time{}
				if int(floor) < len(m.times) {
					want = m.times[floor]
				}
				if !x.Oldest().Equal(want) {
					t.Fatalf("oldest %v, want %v", x.Oldest(), want)
				}
				for n := range 5 {
					if diff := gocmp.Diff(m.refs(streamID(n)), x.Refs(streamID(n)), cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("refs of stream %d (-want +got):\n%s", n, diff)
					}
				}
				for _, age := range []time.Duration{0, 7 * time.Second, time.Hour} {
					if diff := gocmp.Diff(m.due(now, age, 4), x.Due(now, age, 4), cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("due at age %v (-want +got):\n%s", age, diff)
					}
				}
			},
		})
	})
}
