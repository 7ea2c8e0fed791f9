// Package client is the Go SDK of nova: producers, readers and the operator's calls.
//
//	Dial ─▶ Client ─┬─ Producer   Append ─▶ batches ─▶ window ─▶ one Produce call at a time
//	                ├─ Reader     Next   ◀─ checked batches ◀─ one Read call at a time
//	                └─ Create, Delete, Describe, List, Fleet, Handoff, Events
//
// A Client asks one gateway, or with Config.Direct follows the leaders from star to star itself. Leaders
// come and go; producers and readers reopen by themselves and give up only after a time without progress,
// or on a refusal that no retry can heal.
//
// What a producer promises: a Pending that resolves without error has its records stored exactly once,
// in the order of the Append calls, from the sequence that Wait returns. A Pending that resolves with
// ErrOutcomeUnknown may or may not be stored. After the first failure all later records of that producer
// fail too, so that nothing is ever stored behind a hole. With ProducerOptions.AtLeastOnce a batch whose
// answer was lost is stored again.
//
// What a reader promises: sequences without gap or repeat, each batch checked against its CRC32C.
//
// Start with window (which batch is sent next, what an answer resolves) and route (which star is asked
// next); both are pure. producer.go and reader.go are the shells around them.
package client
