package runtime

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals returns a context that the first SIGINT or SIGTERM ends. The second exits the process where it
// stands, with ExitSecond: whoever asks twice does not want to wait for a graceful end. The returned
// function gives the signals back; it may be called more than once.
func Signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	var heard sync.WaitGroup
	heard.Go(func() {
		select {
		case <-signals:
			cancel()
		case <-over:
			return
		}
		select {
		case s := <-signals:
			fmt.Fprintf(os.Stderr, "%v again: exiting without a graceful end\n", s)
			os.Exit(ExitSecond)
		case <-over:
		}
	})
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		cancel()
		close(over)
		heard.Wait()
	})
}
