package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/client"
)

// flushTimeout bounds the wait for answers once the user has interrupted.
const flushTimeout = 10 * time.Second

func newProduce(c *cli) *cobra.Command {
	p := &production{cli: c}
	cmd := &cobra.Command{
		Use: "produce NAME", Short: "Append lines to a stream, one record a line",
		Long: `Append lines to a stream, one record a line, from stdin or from a file.

An empty line is a record, and so is a last line without a line end. The records are stored once and in order, also
when their leader moves or dies meanwhile. When not all can be stored, those that are acknowledged are the first lines
of the input: the error says how many, and where to go on.`,
		Args: streamName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("key-separator") && p.separator == "" {
				return usage(cmd, "--key-separator has at least one character")
			}
			if p.rate < 0 || math.IsNaN(p.rate) || math.IsInf(p.rate, 0) || cmd.Flags().Changed("rate") && p.rate < 1e-3 {
				return usage(cmd, "--rate is a number of records a second, at least 0.001")
			}
			in, err := p.open()
			if err != nil {
				return usage(cmd, "--file: %w", err)
			}
			defer in.Close()
			return c.connected(cmd, func(fleet *client.Client) error { return p.run(cmd.Context(), fleet, args[0], in) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.file, "file", "", "read this `file` instead of stdin; - is stdin")
	f.Float64Var(&p.rate, "rate", 0, "append at most this many `records` a second; 0: as fast as they are taken")
	f.StringVar(&p.separator, "key-separator", "", "what stands before the first `separator` of a line is its key; a line without one has none")
	_ = cmd.MarkFlagFilename("file")
	return cmd
}

// production is one run of produce.
type production struct {
	*cli
	file      string
	rate      float64
	separator string
}

func (p *production) fromStdin() bool { return p.file == "" || p.file == "-" }

func (p *production) open() (io.ReadCloser, error) {
	if p.fromStdin() {
		return io.NopCloser(p.In), nil
	}
	return os.Open(p.file)
}

// run appends the input's lines and reports. Reading, appending and counting go on beside each other:
//
//	source ─▶ splitter ─▶ Append ─▶ tally
func (p *production) run(ctx context.Context, fleet *client.Client, stream string, in io.Reader) error {
	if err := stands(ctx, fleet, stream); err != nil {
		return err
	}
	producer, err := fleet.Producer(ctx, stream, client.ProducerOptions{})
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	// A progress line would run through what is being typed.
	bar := newBar(p.Err, p.Terminal && !(p.Typed && p.fromStdin()), stream)
	t := newTally(bar.acknowledged)
	stopped := p.feed(ctx, producer, in, t)
	flush, cancel := outlast(ctx, flushTimeout)
	defer cancel()
	closed := producer.Close(flush)
	n := t.end()
	bar.end()
	if err := p.report(stream, n); err != nil {
		return err
	}
	switch {
	case errors.Is(stopped, errInterrupted):
		return partial(stream, n, stopped)
	case n.err != nil: // it comes first: what stopped the input lies behind it
		return partial(stream, n, n.err)
	case stopped != nil:
		return partial(stream, n, stopped)
	case closed != nil:
		return partial(stream, n, closed)
	}
	return nil
}

// outlast is a context that ends a grace after ctx.
func outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	after, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-after.Done():
		}
	})
	return after, func() { stop(); cancel() }
}

// feed appends the lines of in until they end, one cannot be appended, or ctx ends. It returns why it ended
// before the input did; nil also where the tally knows.
func (p *production) feed(ctx context.Context, producer *client.Producer, in io.Reader, t *tally) error {
	stop := make(chan struct{})
	defer close(stop)
	pieces := source(in, stop)
	var s splitter
	pace := newPacer(p.rate)
	take := func(line []byte) error {
		pace.wait(ctx, t.failed)
		if ctx.Err() != nil {
			return errInterrupted
		}
		pending := producer.Append(ctx, p.record(line))
		select {
		case <-pending.Done():
			// A record that is refused here must end the input: the ones behind it would be stored.
			if _, err := pending.Wait(ctx); err != nil {
				if ctx.Err() != nil {
					return errInterrupted
				}
				return &lineError{s.lines, err}
			}
		default:
		}
		if !t.add(ctx, pending) {
			return errInterrupted
		}
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return errInterrupted
		case <-t.failed:
			return nil
		case piece := <-pieces:
			switch err := s.feed(piece.bytes, take); {
			case err != nil:
				return err
			case piece.err == io.EOF:
				return s.finish(take)
			case piece.err != nil:
				// What the line would have gone on with is not known, so its beginning is no record.
				return &advised{fmt.Errorf("read the input: %w", piece.err), "see to the input"}
			}
		}
	}
}

func (p *production) record(line []byte) batch.Record {
	if p.separator != "" {
		if key, value, ok := bytes.Cut(line, []byte(p.separator)); ok {
			return batch.Record{Key: key, Value: value}
		}
	}
	return batch.Record{Value: line}
}

// produced is the result of produce. The sequences are null when nothing was acknowledged.
type produced struct {
	Stream       string  `json:"stream"`
	Acknowledged int     `json:"acknowledged"`
	Unknown      int     `json:"unknown"`
	First        *uint64 `json:"first_sequence"`
	Last         *uint64 `json:"last_sequence"`
}

func (p *production) report(stream string, n count) error {
	if p.json() {
		r := produced{Stream: stream, Acknowledged: n.acknowledged, Unknown: n.unknown}
		if n.acknowledged > 0 {
			r.First, r.Last = &n.first, &n.last
		}
		return jsonLine(p.Out, r)
	}
	span := ""
	if n.acknowledged > 0 {
		span = fmt.Sprintf(", sequences %d to %d", n.first, n.last)
	}
	_, err := fmt.Fprintf(p.Out, "acknowledged %s%s\n", records(n.acknowledged), span)
	return err
}

// partial is the error of an input that was not stored to its end.
func partial(stream string, n count, why error) error {
	err := fmt.Errorf("produce to %s: %s acknowledged, then: %w", stream, records(n.acknowledged), why)
	again := fmt.Sprintf("go on from line %d", n.acknowledged+1)
	if n.unknown > 0 {
		err = fmt.Errorf("%w; %s behind them may be stored or not", err, records(n.unknown))
		again = fmt.Sprintf("look at the end of the stream with 'novactl consume %s --from last', then go on from line %d or behind it", stream, n.acknowledged+1)
	}
	if errors.Is(why, errInterrupted) {
		return &advised{err, again}
	}
	if next := next(why); next != "" {
		again = next + "; " + again
	}
	return &advised{err, again}
}

func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}

// stands asks for the stream first, because a producer or reader that reaches nobody tries for long: at
// the start of a command, nobody there is more likely a wrong address than a short absence.
func stands(ctx context.Context, fleet *client.Client, stream string) error {
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := fleet.Describe(asked, stream)
	var unavailable *api.UnavailableError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errInterrupted
	case errors.As(err, &unavailable) && !unreachable(unavailable):
		return nil
	}
	return err
}
