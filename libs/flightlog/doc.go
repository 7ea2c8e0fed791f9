// Package flightlog is the lower half of the data plane: bytes in object stores.
//
// A star writes one chain a class: numbered slots, each holding one flight, an immutable object with
// batches of many streams. A flight lies on every copy (object store) of its class under the same key,
// put with create-if-absent; it is committed when its slot and every earlier one stand on a majority of
// the copies, the copy quorum. Only then is a batch in it acknowledged.
//
//	Add ─▶ open flight ─▶ sealed, slot n ─▶ put on each copy ─▶ quorum, in slot order ─▶ OnCommit
//	                                          └─ the last copy is finished in the background
//
//	copy.go, filecopy.go, memcopy.go   the stores, and what nova demands of one
//	identity.go                        which store a copy is; a blank or foreign one does not vote
//	flight.go, poison.go               the objects' format
//	writer.go, put.go                  the chain's writer
//	graveyard.go                       votes, completion and poison, for the fencer of a dead chain
//	reader.go, scan.go                 batches by their refs; a stream's published segments in order
//	index.go                           what of a chain is not covered by segments yet (pure)
//
// It decides nothing about leadership. It never deletes what it has not been told to, never overwrites,
// and never counts an object that it has seen as durable before it made it so.
package flightlog
