// Package coord is the fleet handle over Oxia, and the only package of nova that imports its client.
//
// It owns where each row lies (keys.go) and how rows are read and written, in two halves:
//
//   - Rows: the durable rows of the /nova instance, typed, versioned, by compare-and-set (rows.go),
//     with the stream names (names.go) over them;
//   - the ephemeral rows of the /fleet instance: the registry of living stars and their stats
//     (registry.go, registration.go), the advisory leases (leases.go) and roles (roles.go).
//
// It decides nothing. A lease here is a courtesy between stars; what safety rests on is the head's
// compare-and-set in libs/epoch.
//
// Two rules keep ephemeral rows ephemeral. Every one is written by one function (kv.go), because a
// rewrite that forgets the flag makes the row permanent; and all carry one partition key, because an
// Oxia client has one session a shard and a star's rows must live and die together.
//
// Three outcomes of a write are told apart: done; ErrConflict, which means that another writer's row
// stands (each row carries a nonce, and a conflict with one's own row is success, since the client
// repeats writes whose answer was lost); and ErrUnknown, after which the caller reads before it writes.
package coord
