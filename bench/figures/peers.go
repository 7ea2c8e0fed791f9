package figures

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/bench/figure"
	"nova.internal/bench/jetstream"
	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
	"nova.internal/libs/api/novav1"
)

// peers sets nova, always fsynced, beside NATS JetStream: in records a second.
func peers() []Figure {
	var figures []Figure
	for _, n := range []struct {
		suffix  string
		streams func(*Env) int
	}{{"-1", one}, {"-1000", many}} {
		for _, p := range []struct {
			name, against string
			nodes         int
			synced        bool
			class         novav1.Class
			target        figure.Target
		}{
			{"jetstream-r1-unsynced", "JetStream, one replica, not fsynced; nova with one copy, fsynced", 1, false, standard, figure.AtLeast(1.5)},
			{"jetstream-r1-synced", "JetStream, one replica, each record fsynced; nova with one copy, fsynced", 1, true, standard, figure.Target{}},
			{"jetstream-r3-unsynced", "JetStream, three replicas, not fsynced; nova express: three copies, fsynced", 3, false, express, figure.Target{}},
		} {
			figures = append(figures, Figure{
				figure.Spec{Name: p.name + n.suffix, Unit: "records/s", Against: p.against, Target: p.target},
				besideJetStream(p.nodes, p.synced, load{n.streams, rig.Direct, p.class}),
			})
		}
	}
	return figures
}

func besideJetStream(nodes int, synced bool, l load) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		b, err := e.board(ctx, nil)
		if err != nil {
			return figure.Result{}, err
		}
		var pairs []figure.Pair
		subject, err := b.append(ctx, l)
		if err == nil {
			_, err = e.with("jetstream", func(dir string) (float64, error) {
				pairs, err = e.besideServers(ctx, s, jetstream.Config{Dir: dir, Nodes: nodes, Synced: synced}, l.streams(e), subject)
				return 0, err
			})
		}
		note := fmt.Sprintf("%d stream(s), records of %d bytes; JetStream's servers are processes of their own", l.streams(e), e.RecordBytes)
		return finish(s, pairs, note, errors.Join(err, b.close()))
	}
}

func (e *Env) besideServers(ctx context.Context, s figure.Spec, cfg jetstream.Config, streams int, subject func(context.Context) (physical.Moved, error)) ([]figure.Pair, error) {
	servers, err := jetstream.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer servers.Stop()
	subjects, err := servers.Create(ctx, "s", streams)
	if err != nil {
		return nil, fmt.Errorf("create %d streams of JetStream: %w", streams, err)
	}
	publish := jetstream.Load{RecordBytes: e.RecordBytes, Bytes: e.Bytes, For: e.For}
	return e.rounds(ctx, s.Name,
		e.recordsPerSecond(func(ctx context.Context) (physical.Moved, error) { return publish.Run(ctx, servers, subjects) }),
		e.recordsPerSecond(subject))
}

func (e *Env) recordsPerSecond(run func(context.Context) (physical.Moved, error)) measure {
	return func(ctx context.Context) (float64, error) {
		moved, err := run(ctx)
		return float64(moved.Bytes) / float64(e.RecordBytes) / moved.Elapsed.Seconds(), err
	}
}
