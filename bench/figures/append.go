package figures

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/bench/figure"
	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/runtime"
)

const plainLoop = "plain loop: the same bytes in files of a flight's size, each fsynced with its folder, one at a time"

// appends are the rates of acknowledged records.
func appends() []Figure {
	return []Figure{
		{figure.Spec{Name: "loop-4", Unit: "MB/s", Against: plainLoop},
			func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
				pairs, err := e.rounds(ctx, s.Name, e.loop(1), e.loop(4))
				return finish(s, pairs, "the same loop with four files at a time, which is a star's pipeline", err)
			}},
		{figure.Spec{Name: "append-direct-1", Unit: "MB/s", Against: plainLoop, Target: figure.AtLeast(0.6)}, appendToLoop(one, rig.Direct, novav1.Class_CLASS_STANDARD)},
		{figure.Spec{Name: "append-direct-1000", Unit: "MB/s", Against: plainLoop, Target: figure.AtLeast(0.6)}, appendToLoop(many, rig.Direct, novav1.Class_CLASS_STANDARD)},
	}
}

func one(*Env) int    { return 1 }
func many(e *Env) int { return e.Many }

// finish makes the figure, unless measuring it failed.
func finish(s figure.Spec, pairs []figure.Pair, note string, err error) (figure.Result, error) {
	if err != nil {
		return figure.Result{}, err
	}
	return s.Of(pairs, note), nil
}

// loop is the plain loop's MB/s.
func (e *Env) loop(atOnce int) measure {
	return func(ctx context.Context) (float64, error) {
		return e.with("loop", func(dir string) (float64, error) {
			moved, _, err := physical.Files{Dir: dir, FileBytes: e.FlightBytes, Bytes: e.Bytes, For: e.For, AtOnce: atOnce}.Write(ctx)
			return moved.MBps(), err
		})
	}
}

// appendToLoop measures acknowledged appends beside the plain loop.
func appendToLoop(streams func(*Env) int, way rig.Way, class novav1.Class) func(context.Context, *Env, figure.Spec) (figure.Result, error) {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx)
		if err != nil {
			return figure.Result{}, err
		}
		subject, err := b.load(ctx, streams(e), way, class)
		if err != nil {
			return figure.Result{}, errors.Join(err, b.close())
		}
		pairs, err := e.rounds(ctx, s.Name, e.loop(1), subject)
		return finish(s, pairs, fmt.Sprintf("%d stream(s), records of %d bytes", streams(e), e.RecordBytes), errors.Join(err, b.close()))
	}
}

// board is a fleet in a folder of its own, and the clients of it.
type board struct {
	*rig.Fleet
	env     *Env
	clients map[rig.Way]*client.Client
	remove  func() error
}

// board starts a fleet with the defaults.
func (e *Env) board(ctx context.Context) (*board, error) {
	dir, remove, err := e.folder("fleet")
	if err != nil {
		return nil, err
	}
	cfg := rig.DefaultConfig()
	cfg.Star.FlightBytes = runtime.Bytes(e.FlightBytes)
	f, err := rig.Start(ctx, dir, cfg)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	b := &board{Fleet: f, env: e, remove: remove, clients: map[rig.Way]*client.Client{}}
	for _, way := range []rig.Way{rig.Direct, rig.Gateway} {
		if b.clients[way], err = f.Client(ctx, way); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

func (b *board) close() error {
	var errs []error
	for _, c := range b.clients {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, b.Stop(), b.remove())...)
}

// load creates n streams and returns the rate in MB/s at which a load of them is acknowledged.
func (b *board) load(ctx context.Context, n int, way rig.Way, class novav1.Class) (measure, error) {
	streams, err := b.Create(ctx, fmt.Sprintf("load-%d-%d-%d", n, way, class), n, class)
	if err != nil {
		return nil, err
	}
	l := rig.Load{RecordBytes: b.env.RecordBytes, Bytes: b.env.Bytes, For: b.env.For}
	return func(ctx context.Context) (float64, error) {
		moved, err := l.Run(ctx, b.clients[way], streams)
		return moved.MBps(), err
	}, nil
}
