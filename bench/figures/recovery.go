package figures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"nova.internal/bench/child"
	"nova.internal/bench/figure"
	"nova.internal/bench/jetstream"
	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/client"
	"nova.internal/services/nova/fleet"
)

// recoveries are the times that a kill costs.
func recoveries() []Figure {
	of := func(name string, streams func(*Env) int) Figure {
		return Figure{figure.Spec{Name: name, Unit: "ms", Against: "the same after a stop in good order"}, recovery(streams)}
	}
	return []Figure{of("recovery-1", one), of("recovery-1000", many)}
}

// recoveryRounds bounds the rounds: each writes for half a minute before it kills.
const recoveryRounds = 3

// recovery is the time from the first open after kill -9, at a fleet that was started again, to a record of
// each stream being acknowledged. Nothing that was written before the kill had been absorbed.
func recovery(streams func(*Env) int) run {
	return func(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
		n := streams(e)
		var pairs []figure.Pair
		var records int64
		for i := range min(e.Rounds, recoveryRounds) {
			var p figure.Pair
			_, err := e.with("killed", func(dir string) (_ float64, err error) {
				p, records, err = e.killAndRecover(ctx, dir, n)
				return 0, err
			})
			if err != nil {
				return figure.Result{}, err
			}
			e.note("%s: round %d: %.4g against %.4g", s.Name, i+1, p.Value, p.Baseline)
			pairs = append(pairs, p)
		}
		note := fmt.Sprintf("%d stream(s); %d records of %d bytes un-absorbed, written over %v", n, records, e.RecordBytes, e.Unabsorbed)
		return s.Of(pairs, note), nil
	}
}

func (e *Env) killAndRecover(ctx context.Context, dir string, n int) (p figure.Pair, records int64, err error) {
	victim, err := child.Start(ctx, victimRole, victimConfig{Data: dir, Streams: n, Env: e.Size})
	if err != nil {
		return p, 0, err
	}
	victim.Kill()
	var told victimSays
	if err := json.Unmarshal([]byte(victim.Line), &told); err != nil {
		return p, 0, err
	}
	settle()
	if p.Value, err = e.reopen(ctx, dir, told.Names); err != nil { // and it stops in good order
		return p, 0, err
	}
	settle()
	p.Baseline, err = e.reopen(ctx, dir, told.Names)
	return p, told.Records, err
}

// reopen starts a fleet, appends a record to each stream, all at once, and stops the fleet. It returns how
// long the appends took, opens included, in milliseconds.
func (e *Env) reopen(ctx context.Context, dir string, names []string) (took float64, err error) {
	b, err := e.boardIn(ctx, dir, roomy)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	record := batch.Record{Value: physical.Noise(e.RecordBytes)}
	producers := make(rig.Producers, len(names))
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for i, name := range names {
		g.Go(func() (err error) {
			if producers[i], err = b.clients[rig.Direct].Producer(gctx, name, client.ProducerOptions{BufferBytes: 1 << 20}); err != nil {
				return err
			}
			_, err = producers[i].Append(gctx, record).Wait(gctx)
			return err
		})
	}
	err = g.Wait()
	took = figure.Millis(time.Since(began))
	return took, errors.Join(err, producers.Close(ctx))
}

const victimRole = "victim"

// victimConfig is what the fleet that will be killed is started with.
type victimConfig struct {
	Data    string
	Streams int
	Env     Size
}

// victimSays is what it tells when it may be killed.
type victimSays struct {
	Names   []string
	Records int64
}

// Roles are what children of a program that measures figures do.
func Roles() map[string]child.Role {
	return map[string]child.Role{jetstream.Role: jetstream.Serve, victimRole: beVictim}
}

// neverAbsorb leaves all that is written where only a scan of the chain finds it.
func neverAbsorb(cfg *fleet.Config) {
	cfg.Star.AbsorbAge, cfg.Star.AbsorbRefs = 24*time.Hour, 1<<30
}

// beVictim runs a fleet, writes to its streams for a while, and leaves their producers open.
func beVictim(config json.RawMessage, ready func(string)) error {
	var cfg victimConfig
	if err := json.Unmarshal(config, &cfg); err != nil {
		return err
	}
	ctx := context.Background()
	e := &Env{Size: cfg.Env}
	b, err := e.boardIn(ctx, cfg.Data, neverAbsorb)
	if err != nil {
		return err
	}
	names, err := b.Create(ctx, "killed", cfg.Streams, standard)
	if err != nil {
		return err
	}
	producers, err := rig.Open(ctx, b.clients[rig.Direct], names, client.ProducerOptions{BufferBytes: 4 << 20})
	if err != nil {
		return err
	}
	records, err := e.trickle().Run(ctx, producers, e.Unabsorbed)
	if err != nil {
		return err
	}
	line, err := json.Marshal(victimSays{names, records})
	if err != nil {
		return err
	}
	ready(string(line))
	return nil
}
