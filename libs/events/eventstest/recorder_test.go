package eventstest_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/events"
	"nova.internal/libs/events/eventstest"
)

func TestARecorderKeepsEventsInOrderAndByKind(t *testing.T) {
	var r eventstest.Recorder
	for i, kind := range []events.Kind{events.EpochBumped, events.Shed, events.EpochBumped} {
		r.Publish(events.Event{Kind: kind, Epoch: uint64(i + 1)})
	}
	epochs := func(of []events.Event) (all []uint64) {
		for _, e := range of {
			all = append(all, e.Epoch)
		}
		return all
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, epochs(r.Events())); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{1, 3}, epochs(r.Events(events.EpochBumped))); diff != "" {
		t.Errorf("one kind (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, epochs(r.Events())); diff != "" {
		t.Errorf("all again (-want +got):\n%s", diff)
	}
}

func TestARecorderTakesEventsFromManyGoroutines(t *testing.T) {
	var r eventstest.Recorder
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { r.Publish(events.Event{Kind: events.Shed}) })
	}
	all.Wait()
	if n := len(r.Events()); n != 20 {
		t.Errorf("%d of 20 kept", n)
	}
}
