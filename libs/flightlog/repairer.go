package flightlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// RepairReport hears what a repairer finds and does. Its methods are called concurrently and must not
// block.
type RepairReport interface {
	// Found: the copy does not show the flight that the slot holds, but this.
	Found(copy, key string, shown Shown)
	// Mended: the copy now holds the flight, read back whole.
	Mended(copy, key string, was Shown)
	// Unmended: the copy answers and could not be brought to hold it, or, where copy is empty, no copy
	// holds the flight whole or two differ.
	Unmended(copy, key string, err error)
	// Dropped: a fault that a read found was not queued, because the queue is full. A scrub finds it.
	Dropped(copy, key string)
}

// ErrLost: no copy that answers holds a decided slot's flight whole.
var ErrLost = errors.New("no copy that answers holds the flight whole")

// ErrTorn: two copies hold different flights under one slot.
var ErrTorn = errors.New("two copies hold different flights in one slot")

// Repairer brings the copies of a class to hold what their decided slots hold (repair.go). Reads and
// writers queue what they met, Run works it off, and Scrub goes and looks. It is safe for concurrent use.
type Repairer struct {
	copies func() *Copies
	report RepairReport
	wake   chan struct{}
	missed chan struct{}

	mu    sync.Mutex
	queue repairQueue
}

// missingGrace is how long after a read missed an object its repair begins: as a rule the object's writer
// is still putting it on its last copy.
const missingGrace = 10 * time.Second

// NewRepairer returns a repairer over what copies returns, which may change.
func NewRepairer(copies func() *Copies, report RepairReport) *Repairer {
	return &Repairer{copies: copies, report: report, wake: make(chan struct{}, 1), missed: make(chan struct{}, 1)}
}

// ReadFault queues what a Reader reports. What says nothing about an object, as that its copy is away,
// it leaves. A Reader is asked for decided slots alone: those that refs, a flight index or a sealed
// chain name.
func (r *Repairer) ReadFault(copy, key string, err error) {
	grace := time.Duration(0)
	switch {
	case errors.Is(err, ErrAbsent):
		grace = missingGrace
	case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer):
		return
	}
	chain := strings.TrimPrefix(key[:max(strings.LastIndexByte(key, '/'), 0)], "flights/")
	if slot, err := slotOf(key); err == nil {
		r.add(repairJob{copy, chain, slot}, grace)
	}
}

// Missed queues a committed flight that did not reach a copy.
func (r *Repairer) Missed(copy, chain string, slot uint64) { r.add(repairJob{copy, chain, slot}, 0) }

func (r *Repairer) add(j repairJob, grace time.Duration) {
	r.mu.Lock()
	kept := r.queue.add(j, time.Now().Add(grace))
	r.mu.Unlock()
	if !kept {
		r.report.Dropped(j.copy, SlotKey(j.chain, j.slot))
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Waiting is how many faults are queued.
func (r *Repairer) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue.waiting)
}

// Overflowed receives when the queue was worked off after faults had found no room in it: then only a
// scrub knows what is left.
func (r *Repairer) Overflowed() <-chan struct{} { return r.missed }

// Run works the queue off until ctx ends, one slot at a time.
func (r *Repairer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		job, ok, wait := r.queue.take(time.Now())
		r.mu.Unlock()
		if ok {
			r.work(ctx, job)
			continue
		}
		if wait == 0 {
			wait = time.Hour // nothing is queued: to be woken
		}
		timer := time.NewTimer(wait)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (r *Repairer) work(ctx context.Context, job repairJob) {
	m, _ := r.Mend(ctx, job.chain, job.slot) // told to the report
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.of(job.copy) == ShowsUnknown {
		r.queue.rest(job, time.Now())
		return
	}
	r.queue.answered(job.copy)
	if m.Plan.Verdict == Lost && m.away() > 0 { // a copy that is away may hold it
		r.queue.add(job, time.Now().Add(repairRestMost))
	}
	if r.queue.drained() {
		select {
		case r.missed <- struct{}{}:
		default:
		}
	}
}

// Mending is what a look at one decided slot found and did.
type Mending struct {
	Plan   RepairPlan
	Copies []string
	Looks  []Look
	Mended int
	Bytes  int64 // read
}

func (m Mending) of(copy string) Shown {
	for i, name := range m.Copies {
		if name == copy {
			return m.Looks[i].Shown
		}
	}
	return ShowsUnknown
}

// Mend looks at one slot on every copy and brings those that answer to hold its flight. The slot must be
// decided. It may be repeated and broken off at any point: each write leaves the copy as it was or whole.
func (r *Repairer) Mend(ctx context.Context, chain string, slot uint64) (Mending, error) {
	key, copies := SlotKey(chain, slot), r.copies()
	var m Mending
	var whole []byte
	for _, c := range copies.List {
		look, b := lookAt(ctx, c, chain, slot)
		if look.Shown == ShowsWhole && whole == nil {
			whole = b
		}
		m.Copies, m.Looks, m.Bytes = append(m.Copies, c.Name()), append(m.Looks, look), m.Bytes+int64(len(b))
	}
	if err := ctx.Err(); err != nil {
		return m, fmt.Errorf("look at %s: %w", key, err)
	}
	m.Plan = PlanRepair(true, m.Looks)
	for i, l := range m.Looks {
		if l.Shown == ShowsMissing || l.Shown == ShowsDamaged || l.Shown == ShowsPoison || l.Shown == ShowsNewer && m.Plan.Source >= 0 {
			r.report.Found(m.Copies[i], key, l.Shown)
		}
	}
	switch m.Plan.Verdict {
	case Lost:
		if m.away() < len(m.Looks) { // else nothing is known, so nothing is to be told
			r.report.Unmended("", key, ErrLost)
		}
		return m, fmt.Errorf("%s: %w", key, ErrLost)
	case Torn:
		r.report.Unmended("", key, ErrTorn)
		return m, fmt.Errorf("%s: %w", key, ErrTorn)
	}
	var errs []error
	for _, i := range m.Plan.Fill {
		errs = append(errs, r.write(ctx, &m, i, copies.List[i], key, whole, Copy.Put))
	}
	for _, i := range m.Plan.Overwrite {
		errs = append(errs, r.write(ctx, &m, i, copies.List[i], key, whole, Copy.Overwrite))
	}
	return m, errors.Join(errs...)
}

// away counts the copies that did not answer.
func (m Mending) away() (n int) {
	for _, l := range m.Looks {
		if l.Shown == ShowsUnknown {
			n++
		}
	}
	return n
}

// write puts the flight on copy i and reads it back: a disk that damaged it once may do so again.
func (r *Repairer) write(ctx context.Context, m *Mending, i int, c Copy, key string, whole []byte, put func(Copy, context.Context, string, ...[]byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	err := put(c, ctx, key, whole)
	if errors.Is(err, ErrExists) { // its writer was first, or a fencer's completion; they have the same bytes
		err = nil
	}
	var back []byte
	if err == nil {
		back, err = c.Get(ctx, key)
	}
	if err == nil && !bytes.Equal(back, whole) {
		err = fmt.Errorf("%w: it is read back otherwise than it was written", ErrCorrupt)
	}
	if err != nil {
		err = fmt.Errorf("mend %s on %s: %w", key, c.Name(), err)
		if !errors.Is(ctx.Err(), context.Canceled) {
			r.report.Unmended(c.Name(), key, err)
		}
		return err
	}
	m.Mended++
	r.report.Mended(c.Name(), key, m.Looks[i].Shown)
	return nil
}

// lookAt reads a slot's object on one copy, whole. The bytes are those of what stands there.
func lookAt(ctx context.Context, c Copy, chain string, slot uint64) (Look, []byte) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	b, err := c.Get(ctx, SlotKey(chain, slot))
	if errors.Is(err, ErrAbsent) {
		return Look{Shown: ShowsMissing}, nil
	}
	if err != nil {
		return Look{}, nil
	}
	p, err := Verify(b)
	if err == nil {
		err = p.isOf(chain, slot)
	}
	if err == nil {
		return Look{Shown: ShowsWhole, Nonce: p.Nonce}, b
	}
	kind, perr := Classify(b, chain, slot)
	switch {
	case errors.Is(err, ErrNewer), perr != nil:
		return Look{Shown: ShowsNewer}, b
	case kind == KindPoison:
		return Look{Shown: ShowsPoison}, b
	}
	return Look{Shown: ShowsDamaged}, b
}

// Scrubbed is what a walk over slots found.
type Scrubbed struct {
	Slots, Bytes, Mended, Unmended int64
}

// Scrub looks at the slots [from, to) of a chain, all of them decided, and mends what it finds. It reads
// at most bytesPerSecond, as a mean, 0: as fast as it can. It ends with ctx, or when no copy answers.
func (r *Repairer) Scrub(ctx context.Context, chain string, from, to uint64, bytesPerSecond int64) (Scrubbed, error) {
	var s Scrubbed
	for slot := from; slot < to; slot++ {
		m, err := r.Mend(ctx, chain, slot)
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
		if m.away() == len(m.Looks) {
			return s, fmt.Errorf("scrub chain %s from slot %d: no copy answers", chain, slot)
		}
		s.Slots, s.Bytes, s.Mended = s.Slots+1, s.Bytes+m.Bytes, s.Mended+int64(m.Mended)
		if err != nil {
			s.Unmended++
		}
		if bytesPerSecond > 0 && !pause(ctx, time.Duration(float64(m.Bytes)/float64(bytesPerSecond)*float64(time.Second))) {
			return s, ctx.Err()
		}
	}
	return s, nil
}

// pause waits for d, or says false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
