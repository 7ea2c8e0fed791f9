package flightlog

import (
	"fmt"
	"testing"
	"time"
)

func TestACopyThatRestsHoldsUpItsOwnRepairsAlone(t *testing.T) {
	var q repairQueue
	now := time.Unix(1000, 0)
	a, b, later := repairJob{"a", "c", 1}, repairJob{"b", "c", 2}, repairJob{"b", "c", 3}
	q.add(a, now)
	q.add(b, now)
	q.add(later, now.Add(10*time.Second))
	q.add(a, now) // known
	take := func(want repairJob) {
		t.Helper()
		if j, ok, _ := q.take(now); !ok || j != want {
			t.Fatalf("took %v, %v; want %v", j, ok, want)
		}
	}
	none := func(wait time.Duration) {
		t.Helper()
		if j, ok, got := q.take(now); ok || got != wait {
			t.Fatalf("took %v, %v, wait %v; want to wait %v", j, ok, got, wait)
		}
	}
	take(a)
	q.rest(a, now)
	take(b)
	none(time.Second) // a's rest, which is shorter than what later waits for
	now = now.Add(time.Second)
	take(a)
	q.rest(a, now)
	none(2 * time.Second)
	for range 10 {
		now = now.Add(repairRestMost)
		if j, ok, _ := q.take(now); ok && j == a {
			q.rest(a, now)
		}
	}
	none(repairRestMost) // the longest rest
	q.answered("a")
	take(a)
	none(0)
}

func TestAFullQueueSaysThatSomethingWasDroppedOnceItIsEmpty(t *testing.T) {
	var q repairQueue
	now := time.Unix(1000, 0)
	for i := range repairsWaiting {
		if !q.add(repairJob{"a", "c", uint64(i)}, now) {
			t.Fatalf("no room for job %d", i)
		}
	}
	if q.add(repairJob{"a", "c", repairsWaiting}, now) {
		t.Fatal("the queue has no bound")
	}
	if !q.add(repairJob{"a", "c", 7}, now) {
		t.Error("a job that waits already was refused")
	}
	for range repairsWaiting {
		if q.drained() {
			t.Fatal("drained before it was empty")
		}
		if _, ok, _ := q.take(now); !ok {
			t.Fatal("nothing to take")
		}
	}
	if said := fmt.Sprint(q.drained(), q.drained()); said != "true false" {
		t.Errorf("drained: %s; want once", said)
	}
}
