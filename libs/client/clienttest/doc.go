// Package clienttest runs a fleet in memory, for tests of what speaks to a fleet through the SDK.
//
// It has a gateway and stars, each a real gRPC server on loopback, over one store of streams. The store
// keeps what a leader must keep: batches in order, the last five of each producer, claims, epochs. Faults
// break handles at chosen or random points. It is for tests only and holds nothing when they end.
package clienttest
