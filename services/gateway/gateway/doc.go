// Package gateway is the door of a fleet: one address for producers, readers and operators, behind which
// leaderships may move as they like.
//
// It keeps no state that matters. Streams are created, described and deleted in the metastore through
// libs/coord; a producer's handle is opened at whichever star leads the stream, or should (opening.go),
// and then relayed in both directions (produce.go); a reader gets published segments straight from the
// copies and the tail from the leader, over as many leaders as the stream has meanwhile (read.go,
// readtail.go). Operators list the fleet, order handoffs and listen to events (admin.go).
//
// Whom to ask next after which answer is decided by a pure type, route (route.go); the rest carries it
// out. What a gateway remembers about who leads (memory.go) is a hint that saves a question and is
// forgotten at the first failure: every star refuses what it does not lead.
//
// A reader is never told the end of a stream that is not known: a leader that died without a mark is
// settled by a star first.
//
// Start reading at gateway.go.
package gateway
