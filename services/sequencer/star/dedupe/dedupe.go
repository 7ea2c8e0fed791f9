// Package dedupe is the table of idempotent producers of one stream: which batch numbers were accepted,
// and where they came to lie. It is pure; the leadership holds it under its lock.
//
// A producer numbers its batches from 1, without gaps. The next number is accepted, a repeat is answered
// with the place of its original, anything else is out of order. Of the committed batches the last five
// are kept for each producer, so a producer has at most five unanswered batches at a time.
package dedupe

import (
	"slices"

	"nova.internal/libs/api/novav1"
)

// Kept is how many committed batches are remembered for each producer, and Producers how many
// producers a segment's table carries at most.
const (
	Kept      = 5
	Producers = 256
)

// Batch is one numbered batch and its place.
type Batch struct {
	Number uint64
	Base   uint64
	Count  uint32
}

func (b Batch) end() uint64 { return b.Base + uint64(b.Count) }

// Verdict says what a batch number means.
type Verdict int

const (
	Next       Verdict = iota // accept it
	Repeat                    // committed: answer with the original's place
	Undecided                 // a repeat of one that is not decided yet: join its wait
	OutOfOrder                // neither next nor remembered
)

type producer struct {
	committed []Batch // at most Kept, oldest first
	pending   []Batch // accepted, not committed, oldest first
	handles   int     // a producer with a handle is never forgotten
	touched   uint64  // of the table's clock, when it last had a batch accepted
}

func (p *producer) last() uint64 {
	if n := len(p.pending); n > 0 {
		return p.pending[n-1].Number
	}
	if n := len(p.committed); n > 0 {
		return p.committed[n-1].Number
	}
	return 0
}

// Table is the producers of one stream. The zero Table is empty and ready.
type Table struct {
	producers map[string]*producer
	clock     uint64
}

// Load replaces the table by what a segment carries.
func (t *Table) Load(states []*novav1.ProducerState) {
	t.producers, t.clock = map[string]*producer{}, 0
	for _, s := range states {
		p := t.of(s.GetProducer())
		for _, b := range s.GetBatches() {
			p.committed = append(p.committed, Batch{b.GetNumber(), b.GetBase(), b.GetCount()})
		}
		t.touch(p)
	}
}

// Judge says what number of the named producer means now. expected is the number that comes next.
func (t *Table) Judge(name string, number uint64) (v Verdict, original Batch, expected uint64) {
	p := t.producers[name]
	if p == nil {
		if number == 1 {
			return Next, Batch{}, 1
		}
		return OutOfOrder, Batch{}, 1
	}
	expected = p.last() + 1
	if number == expected {
		return Next, Batch{}, expected
	}
	for _, b := range p.committed {
		if b.Number == number {
			return Repeat, b, expected
		}
	}
	for _, b := range p.pending {
		if b.Number == number {
			return Undecided, b, expected
		}
	}
	return OutOfOrder, Batch{}, expected
}

// Last is the newest number accepted from the named producer, 0 when none is known.
func (t *Table) Last(name string) uint64 {
	if p := t.producers[name]; p != nil {
		return p.last()
	}
	return 0
}

// Accept notes a batch whose number was judged Next.
func (t *Table) Accept(name string, b Batch) {
	p := t.of(name)
	p.pending = append(p.pending, b)
	t.touch(p)
}

// Withdraw forgets the newest pending batch of the producer: it never joined a flight.
func (t *Table) Withdraw(name string, number uint64) {
	p := t.producers[name]
	if p == nil {
		return
	}
	if n := len(p.pending); n > 0 && p.pending[n-1].Number == number {
		p.pending = p.pending[:n-1]
	}
	t.drop(name, p)
}

// Commit notes that the producer's batch is durable. One that was never accepted here (recovery replays
// a dead leader's batches) is entered as it is.
func (t *Table) Commit(name string, b Batch) {
	p := t.of(name)
	if i := slices.Index(p.pending, b); i >= 0 {
		p.pending = slices.Delete(p.pending, i, i+1)
	} else {
		t.touch(p)
	}
	p.committed = append(p.committed, b)
	if n := len(p.committed); n > Kept {
		p.committed = slices.Delete(p.committed, 0, n-Kept)
	}
	t.trim()
}

// Attach and Detach count the producer's handles.
func (t *Table) Attach(name string) { t.of(name).handles++ }

// Detach undoes Attach.
func (t *Table) Detach(name string) {
	if p := t.producers[name]; p != nil {
		p.handles--
		t.drop(name, p)
	}
}

// Snapshot is the table as of sequence end, for the segment that ends there: the most recent producers,
// oldest first.
func (t *Table) Snapshot(end uint64) []*novav1.ProducerState {
	var names []string
	for name, p := range t.producers {
		if slices.ContainsFunc(p.committed, func(b Batch) bool { return b.end() <= end }) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return int(int64(t.producers[a].touched) - int64(t.producers[b].touched)) })
	if n := len(names); n > Producers {
		names = names[n-Producers:]
	}
	states := make([]*novav1.ProducerState, 0, len(names))
	for _, name := range names {
		s := &novav1.ProducerState{Producer: name}
		for _, b := range t.producers[name].committed {
			if b.end() <= end {
				s.Batches = append(s.Batches, &novav1.ProducerBatch{Number: b.Number, Base: b.Base, Count: b.Count})
			}
		}
		states = append(states, s)
	}
	return states
}

func (t *Table) of(name string) *producer {
	if t.producers == nil {
		t.producers = map[string]*producer{}
	}
	p := t.producers[name]
	if p == nil {
		p = &producer{}
		t.producers[name] = p
	}
	return p
}

func (t *Table) touch(p *producer) {
	t.clock++
	p.touched = t.clock
}

func (t *Table) drop(name string, p *producer) {
	if p.handles <= 0 && len(p.pending) == 0 && len(p.committed) == 0 {
		delete(t.producers, name)
	}
}

// trim forgets the least recent producers beyond twice what a segment carries, but none that has a
// handle or an undecided batch.
func (t *Table) trim() {
	if len(t.producers) <= 2*Producers {
		return
	}
	var idle []string
	for name, p := range t.producers {
		if p.handles <= 0 && len(p.pending) == 0 {
			idle = append(idle, name)
		}
	}
	slices.SortFunc(idle, func(a, b string) int { return int(int64(t.producers[a].touched) - int64(t.producers[b].touched)) })
	for len(idle) > Producers {
		delete(t.producers, idle[0])
		idle = idle[1:]
	}
}
