// Package star is a sequencer: one star of the fleet.
//
// A star leads streams. What it knows of one stream is a *stream (stream.go): a state of the lifecycle
// machine and, while it leads, the sequencer cursor, the producer handles, the idempotence table, the
// tail window and the lease. All streams of one life of the star hang on an *incarnation, which owns the
// two chains, one a class, that their batches are written to.
//
//	Produce ──▶ attach (open.go) ──▶ gate (gate.go, recover.go) ──▶ append (append.go) ──▶ chain (chain.go) ──▶ copies
//	                                                       ▲                        │ commit, in slot order
//	                                                       └──── ack, tail window ──┘
//	absorb (absorb.go): refs of committed batches ──▶ segments and the head (libs/epoch)
//	depart (depart.go): Finish, the mark, the lease's release; handoff.go and settle.go begin it
//
// Rules that hold everywhere here:
//   - One lock a stream (stream.mu) orders all that happens to a leadership. It is never held over I/O.
//   - A stream's second lock (stream.order) makes the order of sequences the order in the chain. It is
//     taken before mu and may be held while the chain pushes back; the commit path never takes it.
//   - A batch is acknowledged only from the chain's commit, which comes in slot order.
//   - Work that must outlive its caller (gates, departures, releases) runs on the star's own context.
//
// Start reading at stream.go.
package star
