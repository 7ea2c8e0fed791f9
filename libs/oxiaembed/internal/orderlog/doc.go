// Package orderlog is the write-ahead log under one shard of the embedded Oxia server.
//
// Oxia's leader hands out the next offset under its lock and appends after it has let the lock go, so two
// writers can arrive here swapped. Oxia's own log answers the second one with an error and refuses every
// later append as well. This log waits for the missing neighbour instead: an entry is written when its
// turn comes, and the answers are given in offset order, one at a time.
//
// What it keeps:
//   - An entry whose callback saw nil is on disk (with Sync: past a crash of the machine; without: past a
//     crash of the process), and so is every entry before it.
//   - A failure is final. After a write or a sync failed, or when an offset never came, every waiting and
//     every later append is answered with that error until the log is opened again: what the disk holds
//     behind a failed sync is unknown, and a hole in the offsets can never be closed.
//   - Opening cuts off a torn tail, and refuses a log in which entries that were durable are damaged.
//
// One goroutine, the committer, owns the files; everything that changes them runs there. Start reading at
// log.go (the surface Oxia sees), then queue.go (the order), commit.go (the committer), recover.go (opening).
package orderlog
