package figures

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/runtime"
	"nova.internal/services/nova/fleet"
)

// board is a fleet in a folder of its own, and clients of it.
type board struct {
	*rig.Fleet
	env     *Env
	clients map[rig.Way]*client.Client
	remove  func() error
}

// board starts a fleet with the defaults but for what tweak changes.
func (e *Env) board(ctx context.Context, tweak func(*fleet.Config)) (*board, error) {
	dir, remove, err := e.folder("fleet")
	if err != nil {
		return nil, err
	}
	b, err := e.boardIn(ctx, dir, tweak)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	b.remove = remove
	return b, nil
}

// boardIn starts a fleet in a folder that outlives it.
func (e *Env) boardIn(ctx context.Context, dir string, tweak func(*fleet.Config)) (*board, error) {
	cfg := rig.DefaultConfig()
	cfg.Star.FlightBytes = runtime.Bytes(e.FlightBytes)
	if tweak != nil {
		tweak(&cfg)
	}
	f, err := rig.Start(ctx, dir, cfg)
	if err != nil {
		return nil, err
	}
	b := &board{Fleet: f, env: e, clients: map[rig.Way]*client.Client{}, remove: func() error { return nil }}
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
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, b.Stop(), b.remove())...)
}

// load is what is appended to a fleet.
type load struct {
	streams func(*Env) int
	way     rig.Way
	class   novav1.Class
}

func one(*Env) int    { return 1 }
func many(e *Env) int { return e.Many }
func most(e *Env) int { return e.Most }

const (
	standard = novav1.Class_CLASS_STANDARD
	express  = novav1.Class_CLASS_EXPRESS
)

// append creates the load's streams and returns how to append to them once, as fast as it goes.
func (b *board) append(ctx context.Context, l load) (func(context.Context) (physical.Moved, error), error) {
	n := l.streams(b.env)
	streams, err := b.Create(ctx, fmt.Sprintf("load-%d-%d-%d", n, l.way, l.class), n, l.class)
	if err != nil {
		return nil, err
	}
	run := rig.Load{RecordBytes: b.env.RecordBytes, Bytes: b.env.Bytes, For: b.env.For}
	return func(ctx context.Context) (physical.Moved, error) { return run.Run(ctx, b.clients[l.way], streams) }, nil
}

// mbps is a load's rate in MB/s.
func (b *board) mbps(ctx context.Context, l load) (measure, error) {
	run, err := b.append(ctx, l)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (float64, error) {
		moved, err := run(ctx)
		return moved.MBps(), err
	}, nil
}
