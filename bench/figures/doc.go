// Package figures is what `make bench` measures: each figure by its name, with its baseline and what it
// has to reach.
//
// A figure prepares its subject once (a fleet, servers, data), measures it and its baseline in turns, and
// takes down what it made. Everything is bounded: by bytes, by time and, in the end, by its context.
//
// Start reading at List, then append.go.
package figures
