// Package runtime is what every nova main shares, so that flags, logs, metrics, health and exits work
// alike in each: Main (main.go) parses flags and the environment and turns an error into one line and an
// exit code; Env (env.go) carries logger, metrics and health; the actors (actors.go) are what a run group
// is made of; NewServer (server.go) is the gRPC server with nova's codec, refusals, health and request
// metrics; Bytes (bytes.go) is a flag in bytes.
//
// Every service keeps to one shape: a package with a Config that registers its own flags and validates
// itself, and Run(ctx, Config, Env, ready), so that a process of its own and the whole fleet in one
// process run the same code.
package runtime
