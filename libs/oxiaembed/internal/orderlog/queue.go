package orderlog

import (
	"errors"
	"maps"
	"slices"
)

// anyOffset as a queue's next means that the next entry to come decides where the log begins.
const anyOffset int64 = -1

var errStale = errors.New("offset was already taken")

// entry is one append on its way to the disk. done is called exactly once.
type entry struct {
	offset  int64
	payload []byte
	done    func(error)
}

// queue puts entries back into offset order. It is not safe for concurrent use.
type queue struct {
	next    int64
	waiting map[int64]entry
}

func newQueue(next int64) *queue { return &queue{next: next, waiting: map[int64]entry{}} }

// push takes e in, whatever its place. It refuses an offset that was popped before or is waiting already.
func (q *queue) push(e entry) error {
	if q.next == anyOffset {
		q.next = e.offset
	}
	if _, twice := q.waiting[e.offset]; twice || e.offset < q.next {
		return errStale
	}
	q.waiting[e.offset] = e
	return nil
}

// pop returns the unbroken run of entries that begins at the next offset, up to maxBytes of payload but at
// least one entry if there is one.
func (q *queue) pop(maxBytes int) []entry {
	var run []entry
	for bytes := 0; ; {
		e, ok := q.waiting[q.next]
		if !ok || (len(run) > 0 && bytes+len(e.payload) > maxBytes) {
			return run
		}
		delete(q.waiting, q.next)
		q.next++
		bytes += len(e.payload)
		run = append(run, e)
	}
}

// gap tells whether entries wait for one that has not come.
func (q *queue) gap() bool {
	_, ready := q.waiting[q.next]
	return len(q.waiting) > 0 && !ready
}

// reset moves the queue to next and returns what was waiting, in offset order.
func (q *queue) reset(next int64) []entry {
	dropped := make([]entry, 0, len(q.waiting))
	for _, offset := range slices.Sorted(maps.Keys(q.waiting)) {
		dropped = append(dropped, q.waiting[offset])
	}
	q.next, q.waiting = next, map[int64]entry{}
	return dropped
}
