package flightlog

import (
	"cmp"
	"slices"
	"time"
)

// Index is a chain's flight index: which committed batches no segment covers yet, and up to which slot
// everything is covered. It is a pure data structure; whoever owns it locks it.
type Index struct {
	floor   uint64 // first slot with a batch that is not covered
	slots   []slotEntry
	streams map[string][]indexed
}

// slotEntry counts, for one slot from floor on, the batches that are not covered.
type slotEntry struct {
	left int
	at   time.Time
}

type indexed struct {
	ref BatchRef
	at  time.Time
}

// Add enters a committed flight. Flights come in slot order; one that was entered already is ignored.
func (x *Index) Add(slot uint64, at time.Time, batches []BatchRef) {
	if slot < x.floor+uint64(len(x.slots)) {
		return
	}
	if x.streams == nil {
		x.streams = map[string][]indexed{}
	}
	for slot > x.floor+uint64(len(x.slots)) {
		x.slots = append(x.slots, slotEntry{at: at})
	}
	x.slots = append(x.slots, slotEntry{left: len(batches), at: at})
	for _, b := range batches {
		x.streams[b.Stream] = append(x.streams[b.Stream], indexed{b, at})
	}
	x.advance()
}

// Covered notes what a stream's head says: everything below covered is in segments, and batches of an
// epoch below the holder's can never count, covered or not, since a gate has passed over them. Both only
// rise, so an answer once read stays true.
func (x *Index) Covered(stream string, covered, holder uint64) {
	x.remove(stream, func(b BatchRef) bool { return b.End() <= covered || b.Epoch < holder })
}

// Gone notes that a stream was deleted or never had a head.
func (x *Index) Gone(stream string) { x.remove(stream, func(BatchRef) bool { return true }) }

func (x *Index) remove(stream string, done func(BatchRef) bool) {
	refs := x.streams[stream]
	kept := slices.DeleteFunc(refs, func(i indexed) bool {
		if !done(i.ref) {
			return false
		}
		x.slots[i.ref.Slot-x.floor].left--
		return true
	})
	if len(kept) == 0 {
		delete(x.streams, stream)
	} else {
		x.streams[stream] = kept
	}
	x.advance()
}

func (x *Index) advance() {
	n := 0
	for n < len(x.slots) && x.slots[n].left == 0 {
		n++
	}
	if n > 0 {
		x.slots = x.slots[n:]
		x.floor += uint64(n)
	}
}

// Floor is the first slot with a batch that is not covered; the next slot when there is none.
func (x *Index) Floor() uint64 { return x.floor }

// Oldest is when the oldest flight with an uncovered batch was committed; zero when there is none.
func (x *Index) Oldest() time.Time {
	if len(x.slots) == 0 {
		return time.Time{}
	}
	return x.slots[0].at
}

// Slots is how many slots lie at or above the floor.
func (x *Index) Slots() int { return len(x.slots) }

// Streams is how many streams have an uncovered batch.
func (x *Index) Streams() int { return len(x.streams) }

// Refs are the uncovered batches of a stream, in the order they were written.
func (x *Index) Refs(stream string) []BatchRef {
	refs := make([]BatchRef, len(x.streams[stream]))
	for i, r := range x.streams[stream] {
		refs[i] = r.ref
	}
	return refs
}

// Due are the streams with an uncovered batch as old as age, or with as many of them as refs; the one
// that has waited longest comes first.
func (x *Index) Due(now time.Time, age time.Duration, refs int) []string {
	var due []string
	for id, list := range x.streams {
		if len(list) >= refs || now.Sub(list[0].at) >= age {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(x.streams[a][0].at.Compare(x.streams[b][0].at), cmp.Compare(a, b))
	})
	return due
}
