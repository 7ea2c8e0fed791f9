package ctl

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"nova.internal/libs/client"
)

func newConsume(c *cli) *cobra.Command {
	from := "first"
	var limit uint64
	var follow bool
	cmd := &cobra.Command{
		Use: "consume NAME", Short: "Print a stream's records, one a line",
		Long: `Print a stream's records: their values, one a line, or with -o json one object a line with sequence, key, value and
timestamp. A key or value that is not UTF-8 is then null, and stands as base64 in key_base64 or value_base64.

Without --follow it ends at the last record that was acknowledged.`,
		Args: streamName,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := client.ReaderOptions{Limit: limit, Follow: follow}
			if err := parseFrom(from, &opts); err != nil {
				return usage(cmd, "%w", err)
			}
			if cmd.Flags().Changed("limit") && limit == 0 {
				return usage(cmd, "--limit is at least 1")
			}
			return c.connected(cmd, func(fleet *client.Client) error { return c.consume(cmd.Context(), fleet, args[0], opts) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", from, "`sequence` of the first record, or first, or last: the newest record")
	f.Uint64Var(&limit, "limit", 0, "end after this many `records`")
	f.BoolVarP(&follow, "follow", "f", false, "go on with new records until interrupted")
	completes(cmd, "from", []string{"first", "last"})
	return cmd
}

func parseFrom(from string, opts *client.ReaderOptions) error {
	switch from {
	case "first":
		return nil
	case "last":
		opts.Last = true
		return nil
	}
	sequence, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		return errors.New("--from is a sequence (0 or above), first or last; not " + strconv.Quote(from))
	}
	opts.From = sequence
	return nil
}

func (c *cli) consume(ctx context.Context, fleet *client.Client, stream string, opts client.ReaderOptions) error {
	if err := stands(ctx, fleet, stream); err != nil {
		return err
	}
	reader, err := fleet.Reader(ctx, stream, opts)
	if err != nil {
		return ended(ctx, opts.Follow, err)
	}
	defer reader.Close()
	out := bufio.NewWriterSize(c.Out, 64<<10)
	show := valueLine
	if c.json() {
		show = recordLine
	}
	err = c.copyRecords(ctx, reader, opts.Follow, func(r client.Record) error { return show(out, r) }, out.Flush)
	// What was read is shown, however the reading ended.
	if ferr := out.Flush(); ferr != nil && err == nil {
		err = ferr
	}
	return ended(ctx, opts.Follow, err)
}

// copyRecords shows record after record. A follower sees each one as it comes.
func (c *cli) copyRecords(ctx context.Context, reader *client.Reader, follow bool, show func(client.Record) error, flush func() error) error {
	for {
		r, err := reader.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := show(r); err != nil {
			return err
		}
		if follow {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// ended is the outcome of a command that ended with err: an interruption is how a follower ends.
func ended(ctx context.Context, follow bool, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case follow:
		return nil
	}
	return errInterrupted
}
