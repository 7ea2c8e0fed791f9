package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
)

// Main is a service's main: it parses the command line and the environment into cfg and runs until a
// signal, exiting with the code that the outcome stands for. The first SIGINT or SIGTERM ends ctx, the
// second exits at once. An error is told in one line on stderr.
func Main(name, short string, cfg Config, run func(ctx context.Context, env Env) error) {
	ctx, stop := Signals(context.Background())
	err := start(ctx, command{name, short, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr}, cfg, run)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, oneLine(err))
	}
	stop()
	os.Exit(ExitCode(err))
}

// command is how a process was called.
type command struct {
	name, short    string
	args           []string
	lookup         func(string) (string, bool) // of the environment
	stdout, stderr io.Writer
}

func start(ctx context.Context, c command, cfg Config, run func(context.Context, Env) error) error {
	f := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	f.SetOutput(c.stderr)
	f.SortFlags = false
	f.Usage = func() { usage(c.stdout, c.name, c.short, f) }
	cfg.Flags(f)
	logs := logging{level: "info", format: "auto"}
	logs.flags(f)
	version := f.Bool("version", false, "print the version and exit")
	switch err := parse(f, c.args, c.lookup); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return ExitError(ExitUsage, err)
	case *version:
		_, err := fmt.Fprintln(c.stdout, c.name, Version())
		return err
	}
	if err := cfg.Validate(); err != nil {
		return ExitError(ExitUsage, err)
	}
	log, err := logs.logger(c.stderr)
	if err != nil {
		return ExitError(ExitUsage, err)
	}
	slog.SetDefault(libraries(log))
	err = run(ctx, NewEnv(c.name, log))
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // told to stop while it started: no failure
		log.Info("stopped before it was done", "err", err)
		return nil
	}
	return err
}
