package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// Exit codes of every nova binary.
const (
	ExitFailed = 1 // it ran and failed
	ExitUsage  = 2 // it was started wrongly: flags, configuration, or what it stands on
	exitSecond = 130
)

// exitError is an error with the exit code that it stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// ExitError gives err an exit code.
func ExitError(code int, err error) error { return &exitError{code, err} }

// ExitCode is the exit code that err stands for.
func ExitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return ExitFailed
}

// Config is what a service is configured with.
type Config interface {
	Flags(*pflag.FlagSet)
	Validate() error
}

// Main is a service's main: it parses the command line and the environment into cfg and runs until a
// signal, exiting with the code that the outcome stands for. The first SIGINT or SIGTERM ends ctx, the
// second exits at once.
func Main(name, short string, cfg Config, run func(ctx context.Context, env Env) error) {
	ctx, stop := Signals(context.Background())
	defer stop()
	err := start(ctx, name, short, cfg, os.Args[1:], os.Stderr, run)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, oneLine(err))
	}
	stop()
	os.Exit(ExitCode(err))
}

func start(ctx context.Context, name, short string, cfg Config, args []string, stderr io.Writer, run func(context.Context, Env) error) error {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(stderr)
	f.SortFlags = false
	f.Usage = func() {
		fmt.Fprintf(stderr, "%s: %s\n\nEach flag is also read from the environment, as NOVA_ and its name in capitals.\n\n%s", name, short, f.FlagUsages())
	}
	cfg.Flags(f)
	logs := logging{level: "info", format: "auto"}
	logs.flags(f)
	switch err := parse(f, args, os.LookupEnv); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return ExitError(ExitUsage, err)
	}
	if err := cfg.Validate(); err != nil {
		return ExitError(ExitUsage, err)
	}
	log, err := logs.logger(stderr)
	if err != nil {
		return ExitError(ExitUsage, err)
	}
	// Libraries that log by themselves are heard from a warning on.
	slog.SetDefault(slog.New(atLeast{log.Handler(), slog.LevelWarn}))
	return run(ctx, NewEnv(name, log))
}

// parse reads the flags; one that the command line leaves out is read from the environment.
func parse(f *pflag.FlagSet, args []string, lookup func(string) (string, bool)) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; every setting is a flag, see --help", f.Arg(0))
	}
	var failed error
	f.VisitAll(func(flag *pflag.Flag) {
		name := "NOVA_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, ok := lookup(name)
		if !ok || flag.Changed || failed != nil {
			return
		}
		if err := f.Set(flag.Name, value); err != nil {
			failed = fmt.Errorf("%s=%q: %w", name, value, err)
		}
	})
	return failed
}

// Signals returns a context that the first SIGINT or SIGTERM ends. The second exits the process.
func Signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(exitSecond)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
		select {
		case <-done:
		default:
			close(done)
		}
	}
}

// oneLine folds an error's text into one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
