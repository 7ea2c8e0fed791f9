// Package ctl is novactl's command tree.
//
//	args ─▶ Main ─▶ Run ─▶ newRoot ─┬─ stream create | list | describe | delete
//	                                ├─ produce   lines ─▶ client.Producer ─▶ tally
//	                                ├─ consume   client.Reader ─▶ lines
//	                                └─ handoff, fleet, events
//	                      ◀─ exit code, one line on stderr where it is not 0
//
// A command parses its arguments, asks the fleet through libs/client and prints; it decides nothing about
// streams. Run takes its streams, arguments and environment as values, so that tests run commands in memory.
//
// The exit code is 0 when all was done, 1 when something failed, 2 when the command was given wrongly and
// nothing was asked of the fleet. What goes wrong is one line on stderr that ends with what to do about it.
// stdout carries results only, as a table or text, or with -o json as JSON: one document for describe, list
// and fleet, one object a line for what may be endless.
//
// Start with ctl.go (Run and the streams), then explain.go (errors), then one file a command.
package ctl
