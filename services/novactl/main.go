// novactl is the command line of operators and developers of a nova fleet.
package main

import (
	"context"
	"os"

	"golang.org/x/term"

	"nova.internal/libs/runtime"
	"nova.internal/services/novactl/ctl"
)

func main() {
	ctx, stop := runtime.Signals(context.Background())
	code := ctl.Run(ctx, os.Args[1:], ctl.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env:      os.LookupEnv,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
	})
	stop()
	os.Exit(code)
}
