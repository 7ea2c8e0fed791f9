// Package coord is the fleet handle over Oxia, and the only package of nova that imports its client.
//
// It owns where each row lies (keys.go) and how rows are read and written, in two halves:
//
//   - Rows: the durable rows of the /nova instance, typed, versioned, by compare-and-set (rows.go),
//     with the stream names (names.go) over them;
//   - the ephemeral rows of the /fleet instance: the registry of living stars and their stats
//     (registry.go, register.go, registration.go), the advisory leases (leases.go) and roles (roles.go).
//
// It decides nothing. A lease here is a courtesy between stars; what safety rests on is the head's
// compare-and-set in libs/epoch.
//
//	Rows ── Names          Registry  Registration  Leases  Roles
//	  │                        │           │         │       │
//	  │                        └───────────┴── ephemeral.go ─┘
//	client (linger 0, lingering)            client (linger 0)      deadlines, lanes, owned goroutines
//	  │                                        │
//	KV: Oxia's client, or a test's faults around it (coordtest)
//
// Every call ends at its caller's deadline, though Oxia's client heeds none (client.go). Two rules keep
// ephemeral rows ephemeral: one function writes them all, because a rewrite that forgets the flag makes
// the row permanent; and all carry one partition key, because an Oxia client has one session a shard and
// a star's rows must live and die together. A row that went out under a session other than the star's is
// removed again, and Registration.Lost says that the fleet has declared the star dead.
//
// Three outcomes of a write are told apart: done; ErrConflict, which means that another writer's row
// stands (each row carries a nonce, and a conflict with one's own row is success, since the client
// repeats writes whose answer was lost); and ErrUnknown, after which the caller reads before it writes.
//
// Start at fleet.go, then client.go.
package coord
