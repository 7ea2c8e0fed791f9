// Package physical measures what this machine allows with no nova in between: durable files one after the
// other, files read back, and gRPC alone with nova's own messages, codec and options.
//
// The numbers are baselines, so nothing here is clever: each is the plainest program that does the work.
package physical
