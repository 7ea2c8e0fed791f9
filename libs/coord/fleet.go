package coord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"nova.internal/libs/api/novav1"
)

// absorbLinger is how long the batching client gathers calls.
const absorbLinger = 2 * time.Millisecond

// Fleet is the handle over both Oxia instances, handed out in narrow slices. It is safe for concurrent
// use.
type Fleet struct {
	cfg      Config
	log      *slog.Logger
	rows     *Rows
	registry *Registry

	mu        sync.Mutex
	ephemeral KV
	self      *novav1.StarRow // once registered: who takes leases here
	session   int64           // of the liveness row; 0 before

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// Dial connects to both instances and reads the registry once. An instance that does not answer is an
// error that names its address.
func Dial(ctx context.Context, cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{cfg: cfg, log: cfg.Log}
	fast, err := dial(cfg, "durable", cfg.Durable, cfg.DurableNamespace, 0)
	if err != nil {
		return nil, err
	}
	slow, err := dial(cfg, "durable", cfg.Durable, cfg.DurableNamespace, absorbLinger)
	if err != nil {
		return nil, errors.Join(err, fast.Close())
	}
	f.rows = &Rows{kv: fast, timeout: cfg.RequestTimeout, slow: &Rows{kv: slow, timeout: cfg.RequestTimeout}}
	f.rows.slow.slow = f.rows.slow
	if f.ephemeral, err = dial(cfg, "ephemeral", cfg.Ephemeral, cfg.EphemeralNamespace, 0); err != nil {
		return nil, errors.Join(err, fast.Close(), slow.Close())
	}
	f.registry = newRegistry(f)
	if _, err := f.registry.Refresh(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	loops, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	f.loops.Go(func() { f.registry.run(loops) })
	return f, nil
}

// Rows are the durable rows.
func (f *Fleet) Rows() *Rows { return f.rows }

// Registry is the snapshot of the living stars.
func (f *Fleet) Registry() *Registry { return f.registry }

// Names are the streams' names.
func (f *Fleet) Names() Names { return Names{f.rows} }

// Leases are the advisory writer leases.
func (f *Fleet) Leases() Leases { return Leases{f} }

// Roles are the advisory job records.
func (f *Fleet) Roles() Roles { return Roles{f} }

// Reconnect replaces the ephemeral client: after a lost session the old one silently starts another at
// its next ephemeral put, and its heartbeats cannot be trusted any more. What the old client still held
// is removed with its session.
func (f *Fleet) Reconnect(ctx context.Context) error {
	fresh, err := dial(f.cfg, "ephemeral", f.cfg.Ephemeral, f.cfg.EphemeralNamespace, 0)
	if err != nil {
		return err
	}
	f.mu.Lock()
	old := f.ephemeral
	f.ephemeral, f.self, f.session = fresh, nil, 0
	f.mu.Unlock()
	f.closeBounded(old)
	return ctx.Err()
}

// Close ends the loops and the clients. Closing the ephemeral client ends its session, which removes its
// rows at once. It is bounded by a second more than the request timeout.
func (f *Fleet) Close() error {
	if f.cancel != nil {
		f.cancel()
		f.loops.Wait()
	}
	f.mu.Lock()
	ephemeral := f.ephemeral
	f.mu.Unlock()
	return errors.Join(f.closeBounded(ephemeral), f.closeBounded(f.rows.kv), f.closeBounded(f.rows.slow.kv))
}

// closeBounded closes a client that may hang on a server that is away.
func (f *Fleet) closeBounded(kv KV) error {
	done := make(chan error, 1)
	go func() { done <- kv.Close() }()
	timer := time.NewTimer(f.cfg.RequestTimeout + time.Second)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errors.New("an oxia client did not close in time; its rows end with its session")
	}
}

func (f *Fleet) kv() KV {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ephemeral
}

// me is the registered star, nil before.
func (f *Fleet) me() *novav1.StarRow {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.self
}
