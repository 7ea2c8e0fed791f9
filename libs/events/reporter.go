package events

// Reporter is what a service tells events to: a Publisher, Discard where none are wanted, or a recorder
// in a test. Publish never blocks and may be called from any goroutine, under any lock.
type Reporter interface{ Publish(Event) }

// Discard takes every event and keeps none.
var Discard Reporter = discard{}

type discard struct{}

func (discard) Publish(Event) {}
