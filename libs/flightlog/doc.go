// Package flightlog is the lower half of the data plane: bytes in object stores.
//
// A star writes one chain a class: numbered slots, each holding one flight, an immutable object with
// batches of many streams. A flight lies on every copy (object store) of its class under the same key,
// put with create-if-absent; it is committed when its slot and every earlier one stand on a majority of
// the copies, the copy quorum. Only then is a batch in it acknowledged.
//
//	Add ─▶ open flight ─▶ sealed, slot n ─┬▶ lane of copy a ─▶ put ─┐
//	                                      ├▶ lane of copy b ─▶ put ─┼▶ quorum, in slot order ─▶ OnCommit
//	                                      └▶ lane of copy c ─▶ put ─┘   (the last goes on in the background)
//
// Start at writer.go, or, for what is on the disk, at flight.go.
//
//	copy.go, memcopy.go                          what nova demands of a store; one in memory
//	filecopy.go, filetemp.go, filefolder.go,
//	fileread.go                                  the store of files
//	identity.go, admit.go, probe.go, health.go   which store a copy is; a blank or foreign one has no part
//	flight.go, build.go, poison.go               the objects' format
//	writer.go, lane.go, tell.go, state.go        the chain's writer: slots, copies, callbacks, end
//	graveyard.go                                 votes, completion and poison, for a dead chain's fencer
//	reader.go, scan.go                           batches by their refs; a stream's segments in order
//	repair.go, repairer.go, repairqueue.go       what brings a copy back to what its decided slots hold
//	index.go                                     what of a chain is not covered by segments yet (pure)
//	flightlogtest/                               stores that fail on purpose
//
// It decides nothing about leadership. It never deletes what it has not been told to, overwrites
// nothing but what is no flight in a slot that is decided, never counts an object that it has seen before it made it durable, and never takes silence for an answer.
package flightlog
