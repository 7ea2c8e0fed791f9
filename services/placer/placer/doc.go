// Package placer answers who leads a stream, or who would: the lease's holder where one stands, and the
// designate by libs/placement over the registry's snapshot, bound by a handoff's successor record.
//
// It holds no state of its own and decides nothing for anybody: a star that gets no answer decides with
// the same function on its own snapshot, so a fleet goes on without a placer. With one, all stars place
// by the same numbers, and `Resolve` says which those were. It never moves a stream.
//
//	Resolve ─▶ lease, read now ──(none, or left out)─▶ head: successor
//	               │                                      │
//	               └──────▶ placement.Decide ◀────────────┘
//	                              ▲
//	                registry snapshot, at most 3 s old
//
// A snapshot older than that is no ground to decide on: the placer then says UNAVAILABLE and is not
// ready, rather than name stars that may have gone. Before it calls a fleet full, or a lease's star
// unknown, it looks a second time, since a star that has just joined is in no snapshot yet.
//
// Start reading at Server.Resolve (server.go); Run (run.go) is the wiring.
package placer
