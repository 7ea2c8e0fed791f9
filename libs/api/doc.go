// Package api is nova's contract: what producers, readers, operators and the fleet's own processes say
// to one another, and what rows the metastore holds.
//
// It owns the protobuf types (novav1, generated from proto/), the batch encoding of records (batch),
// the rules for stream names and their encodings (names.go), the one table between nova's refusals and
// gRPC statuses (refusal.go) and the codec that every nova connection is forced to use (codec.go). It
// does no I/O, and imports no other nova package.
//
// Start reading at proto/nova/v1/streams.proto.
package api
