// Package natsembed runs a NATS server with JetStream inside the process: for the all-in-one fleet, for
// `nova infra` and for tests. It listens on loopback unless told otherwise, leaves the process's signals
// alone, and keeps its data in one folder: a server started again on the same folder has what the last
// one had. It has no accounts and no passwords; it belongs on loopback or on a network of its own.
package natsembed
