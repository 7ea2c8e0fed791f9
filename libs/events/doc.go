// Package events publishes what happens to leaderships and replays it.
//
// A service hands an Event to a Publisher and goes on: Publish never waits, neither for NATS nor for a
// disk. Behind it lies a bounded outbox, which one goroutine empties in order into the JetStream stream
// NOVA; while NATS is away the outbox fills, and what no longer fits is dropped, the oldest first, and
// counted. So a log of events can have holes, and says so: nova_events_dropped_total rises, and a
// stream's epochs, which rise by one, no longer join. The metastore's rows, not the events, are the
// ground truth.
//
// Each event is a CloudEvents 1.0 JSON object (event.go) under a subject that names its kind, star and
// stream (subject.go), so that anyone can listen with `nats sub 'nova.event.>'`. Its id is the message
// id by which JetStream drops the repeats of a publish whose answer was lost.
//
// Tap (tap.go) is the other direction: it replays what matches a Filter and, when asked to follow, goes
// on with what comes, across reconnects without a gap and without a repeat.
//
// A service holds a Reporter (reporter.go), which is a Publisher, Discard, or in tests the Recorder of
// package eventstest.
//
// Start reading at kinds.go.
package events
