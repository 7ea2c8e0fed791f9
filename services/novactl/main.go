// novactl is the command line of operators and developers of a nova fleet.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"nova.internal/services/novactl/ctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(ctl.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
