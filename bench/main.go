// Command bench measures nova beside what the machine allows and beside NATS JetStream, and prints one
// figure after the other: name, value, unit, baseline and ratio.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"nova.internal/bench/child"
	"nova.internal/bench/figure"
	"nova.internal/bench/figures"
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the embedded servers' own lines
	child.Play(figures.Roles())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, pflag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what args pick. A figure that cannot be measured is told at the end; the others are not
// given up for it.
func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	env := figures.Env{Size: figures.FullSize(), Log: log}
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	only := f.String("only", "", "figures to measure: comma-separated names, in which * stands for anything; empty: all")
	asJSON := f.Bool("json", false, "one JSON object a line, instead of a table")
	list := f.Bool("list", false, "name the figures and end")
	dir := f.String("dir", ".", "folder on the disk under test, in which a scratch folder is made; a tmpfs measures nothing")
	f.IntVar(&env.Rounds, "rounds", env.Rounds, "rounds of subject and baseline; figures are medians")
	f.Int64Var(&env.Bytes, "bytes", env.Bytes, "bytes of one throughput run")
	f.DurationVar(&env.For, "for", env.For, "bound of one run, however many bytes it has moved")
	if err := f.Parse(args); err != nil {
		return err
	}
	picked, err := figures.Pick(*only)
	if err != nil {
		return err
	}
	if *list {
		for _, p := range picked {
			fmt.Fprintf(out, "%-28s %s\n", p.Name, p.Target)
		}
		return nil
	}
	if env.Rounds < 1 || env.Bytes < 1<<20 {
		return errors.New("--rounds: at least 1; --bytes: at least 1048576")
	}
	if env.Dir, err = os.MkdirTemp(*dir, ".nova-bench-"); err != nil {
		return fmt.Errorf("make a scratch folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(env.Dir)) }()
	write := figure.Table(out)
	if *asJSON {
		write = figure.JSON(out)
	}
	var errs []error
	for _, p := range picked {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := p.Measure(ctx, &env)
		if err == nil {
			err = write.Write(r)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
