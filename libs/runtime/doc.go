// Package runtime is what every nova main shares, so that flags, logs, metrics, health and exits work
// alike in each.
//
//   - Main (main.go) parses flags and the environment (flags.go, bytes.go), makes the logger (log.go),
//     hears signals (signals.go) and turns an error into one line and an exit code (exit.go);
//   - Env (env.go) carries a service's logger, metrics and health; any number live in one process, and
//     Env.Part makes one whose metrics also show in its parent's, under labels that name it;
//   - Health (health.go) is the readiness that /readyz and gRPC's health service tell;
//   - Listen and the actors (actors.go) are what a run group is made of;
//   - NewServer (server.go) is the gRPC server with nova's codec, refusals, health and request metrics.
//
// Every service keeps to one shape: a package with a Config that registers its own flags and validates
// itself, and Run(ctx, Config, Env, ready), so that a process of its own and the whole fleet in one
// process run the same code. Nothing here is global but what a process has one of: its signals, its
// default logger and its exit code, all of them Main's.
package runtime
