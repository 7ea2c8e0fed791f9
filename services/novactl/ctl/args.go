package ctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nova.internal/libs/api"
)

// usageError is a command that was given wrongly. Nothing was asked of the fleet.
type usageError struct {
	command string // to get help on
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{command: cmd.CommandPath(), err: fmt.Errorf(format, args...)}
}

// group is a command that only holds others: alone it shows its help.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return usage(cmd, "%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(near, " or "))
			}
			return usage(cmd, "%s has no command %q", cmd.CommandPath(), args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// streamName is the argument check of the commands that take one stream's name.
func streamName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usage(cmd, "which stream? give its name")
	case len(args) > 1:
		return usage(cmd, "one stream at a time: unexpected argument %q", args[1])
	}
	if err := api.CheckStreamName(args[0]); err != nil {
		return usage(cmd, "stream %q: %w", args[0], err)
	}
	return nil
}

// nothing is the argument check of the commands that take flags only.
func nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, "unexpected argument %q", args[0])
	}
	return nil
}

// choice is a flag with a few allowed values.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "choice" }

func (c *choice) Set(v string) error {
	if !slices.Contains(c.allowed, v) {
		return errors.New("it must be " + strings.Join(c.allowed, " or "))
	}
	c.value = v
	return nil
}

// completes offers the values of a flag to the shell.
func completes(cmd *cobra.Command, flag string, values []string) {
	// An error here means that the flag does not exist, which the tests of the flag would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
