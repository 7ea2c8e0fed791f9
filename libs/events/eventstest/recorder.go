// Package eventstest stands in for a Publisher in tests of what publishes: a Recorder keeps the events
// for the test to look at, without NATS.
package eventstest

import (
	"slices"
	"sync"

	"nova.internal/libs/events"
)

// Recorder is an events.Reporter that keeps what it is told, in order. Its zero value is ready.
type Recorder struct {
	mu     sync.Mutex
	events []events.Event
}

var _ events.Reporter = (*Recorder)(nil)

// Publish keeps e as it is: with its typed Data, and without an id or a time of its own.
func (r *Recorder) Publish(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Events are those of the kinds named so far, all of them where none is named. The slice is the caller's.
func (r *Recorder) Events(kinds ...events.Kind) []events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e events.Event) bool {
		return len(kinds) > 0 && !slices.Contains(kinds, e.Kind)
	})
}
