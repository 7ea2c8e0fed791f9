// Package epoch is the arbiter of leadership: the epoch guard.
//
// Who may publish to a stream is decided by one row, the stream's head, and by one operation on it, the
// compare-and-set. A lease says who should lead; only the head says who does. This package owns
//
//   - the head's transitions (head.go) and the one queue through which a star writes a head (guard.go),
//   - the gate's decision what evidence of coverage it needs before it may pass (plan.go, dense.go),
//   - the publication of segments, with or without the clean-release mark (publish.go),
//   - the fence, which ends a dead writer's chain so that nothing more of it can ever count (judge.go,
//     fence.go).
//
// It never reads a clock to decide anything, never infers coverage from liveness, and never treats a
// read as proof: what safety rests on is settled by a compare-and-set of the head or of the chain row.
//
// The invariant it keeps: after a gate passed with cursor c at epoch e, no epoch below e acknowledges a
// sequence at or above c, and every record acknowledged below c is published.
//
// Start reading at plan.go.
package epoch
