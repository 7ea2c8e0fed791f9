package flightlog

import "time"

// repairJob is one copy's fault in one slot that is known to hold a flight.
type repairJob struct {
	copy  string
	chain string
	slot  uint64
}

const (
	// repairsWaiting bounds the queue. What finds no room is the next scrub's.
	repairsWaiting = 4096
	repairRestMin  = time.Second
	repairRestMost = time.Minute
)

// repairQueue holds the jobs that wait, each once, in the order they came. A copy that did not answer
// rests, longer each time, and its jobs with it; those of the others go on. It is a pure data structure.
type repairQueue struct {
	waiting []queuedRepair
	known   map[repairJob]bool
	resting map[string]copyRest
	dropped bool // since the queue was empty last
}

type queuedRepair struct {
	repairJob
	due time.Time
}

type copyRest struct {
	until time.Time
	pause time.Duration
}

// add queues a job that is due then. It says false where there is no room.
func (q *repairQueue) add(j repairJob, due time.Time) bool {
	if q.known[j] {
		return true
	}
	if len(q.waiting) >= repairsWaiting {
		q.dropped = true
		return false
	}
	if q.known == nil {
		q.known, q.resting = map[repairJob]bool{}, map[string]copyRest{}
	}
	q.known[j] = true
	q.waiting = append(q.waiting, queuedRepair{j, due})
	return true
}

// take removes the first job that is due and whose copy does not rest; where there is none it says how
// long there will be none, 0 for an empty queue.
func (q *repairQueue) take(now time.Time) (j repairJob, ok bool, wait time.Duration) {
	for i, w := range q.waiting {
		due := w.due
		if rest := q.resting[w.copy].until; rest.After(due) {
			due = rest
		}
		if left := due.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
		delete(q.known, w.repairJob)
		return w.repairJob, true, 0
	}
	return repairJob{}, false, wait
}

// rest puts a job back whose copy did not answer, and lets the copy rest.
func (q *repairQueue) rest(j repairJob, now time.Time) bool {
	pause := min(max(2*q.resting[j.copy].pause, repairRestMin), repairRestMost)
	kept := q.add(j, now)
	if q.resting != nil {
		q.resting[j.copy] = copyRest{now.Add(pause), pause}
	}
	return kept
}

// answered ends a copy's rest.
func (q *repairQueue) answered(copy string) { delete(q.resting, copy) }

// drained says, once, that the queue has become empty after something found no room in it.
func (q *repairQueue) drained() bool {
	if !q.dropped || len(q.waiting) > 0 {
		return false
	}
	q.dropped = false
	return true
}
