package figures

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/bench/figure"
	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
)

const plainLoop = "plain loop: the same bytes in files of a flight's size, each fsynced with its folder, one at a time"

// run measures a figure.
type run = func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error)

// appends are the rates of acknowledged records.
func appends() []Figure {
	figures := []Figure{{figure.Spec{Name: "loop-4", Unit: "MB/s", Against: plainLoop},
		func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
			pairs, err := e.rounds(ctx, s.Name, e.loop(1), e.loop(4))
			return finish(s, pairs, "the same loop with four files at a time, as a star's pipeline has them", err)
		}}}
	for _, n := range []struct {
		suffix  string
		streams func(*Env) int
	}{{"-1", one}, {"-1000", many}} {
		direct := load{n.streams, rig.Direct, standard}
		figures = append(figures,
			Figure{figure.Spec{Name: "append-direct" + n.suffix, Unit: "MB/s", Against: plainLoop, Target: figure.AtLeast(0.6)},
				besideLoop(direct)},
			Figure{figure.Spec{Name: "append-gateway" + n.suffix, Unit: "MB/s", Against: "the same, direct to the star", Target: figure.AtLeast(0.5)},
				besideLoad(direct, load{n.streams, rig.Gateway, standard})},
			Figure{figure.Spec{Name: "append-express" + n.suffix, Unit: "MB/s", Against: "the same with one copy; express has three, here on one disk", Target: figure.AtLeast(1.0 / 3)},
				besideLoad(direct, load{n.streams, rig.Direct, express})},
		)
	}
	return figures
}

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

// besideLoop measures a load beside the plain loop.
func besideLoop(l load) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx, nil)
		if err != nil {
			return figure.Result{}, err
		}
		var pairs []figure.Pair
		subject, err := b.mbps(ctx, l)
		if err == nil {
			pairs, err = e.rounds(ctx, s.Name, e.loop(1), subject)
		}
		note := fmt.Sprintf("%d stream(s), records of %d bytes", l.streams(e), e.RecordBytes)
		return finish(s, pairs, note, errors.Join(err, b.close()))
	}
}

// besideLoad measures a load beside another one of the same fleet.
func besideLoad(baseline, subject load) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx, nil)
		if err != nil {
			return figure.Result{}, err
		}
		pairs, err := func() ([]figure.Pair, error) {
			base, err := b.mbps(ctx, baseline)
			if err != nil {
				return nil, err
			}
			other, err := b.mbps(ctx, subject)
			if err != nil {
				return nil, err
			}
			return e.rounds(ctx, s.Name, base, other)
		}()
		note := fmt.Sprintf("%d stream(s), records of %d bytes", subject.streams(e), e.RecordBytes)
		return finish(s, pairs, note, errors.Join(err, b.close()))
	}
}
