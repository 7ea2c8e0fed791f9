// Package jetstream measures what nova is compared with: NATS JetStream with file storage, on one server
// and on a cluster of three, each server a process of its own on loopback.
//
// The publisher is nats.go's asynchronous one with a bound on what is unanswered, which is its fastest.
// Un-synced is JetStream's default, where an acknowledgement means that the record is in the page cache;
// synced is `sync_interval: always`, where it means fsync, as it does in nova.
package jetstream
