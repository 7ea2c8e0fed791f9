// Package oxiaembed runs an Oxia server inside this process, for the all-in-one nova, for tests, and for the
// compose default. In production nova talks to a real Oxia cluster through the same client.
//
// Oxia's own standalone server stops for good once two clients write at the same moment. This one keeps Oxia's
// leader, sessions, notifications and store, and replaces what lies around them:
//
//	client ── front (gRPC: refuse, write stream, scans, sessions)
//	             │
//	          shard ── Oxia's leader controller ── Oxia's store (pebble, no log of its own)
//	             │            │
//	             └── orderlog: write-ahead log that restores the order of concurrent appends
//
// What it keeps, with Sync: a write that was answered is there after a kill and after a crash of the machine.
// Without Sync the crash of the machine is excepted. When that can no longer be kept, because the log failed
// or the disk is full, no write is answered, Healthy says why, and so does the gRPC health service.
//
// What it does not have: replication, namespaces beside "default", TLS, sequence keys and secondary indexes
// (see refuse.go), and a lock on its folder beyond the store's own. Oxia's packages write their own lines to
// slog.Default() and register their metrics with Prometheus's default registry; neither can be redirected.
// Two servers in one process share those and nothing else.
//
// Start reading at server.go, then shard.go; internal/orderlog has a story of its own.
package oxiaembed
