package coord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
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
	tries    tries // of roles

	mu           sync.Mutex
	ephemeral    *client
	registration *Registration // of this process as a star; nil before, and after Reconnect
	closed       bool

	reconnecting sync.Mutex
	life         context.Context // of the loops
	end          context.CancelFunc
	loops        sync.WaitGroup
}

// Dial connects to both instances and reads the registry once. It waits up to cfg.DialTimeout for each to
// answer; one that does not is an error that names its address.
func Dial(ctx context.Context, cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	durable := instance{"durable", cfg.Durable, cfg.DurableNamespace}
	fast, err := dial(ctx, cfg, durable, 0)
	if err != nil {
		return nil, err
	}
	slow, err := dial(ctx, cfg, durable, absorbLinger)
	if err != nil {
		return nil, errors.Join(err, fast.close())
	}
	ephemeral, err := dial(ctx, cfg, cfg.ephemeral(), 0)
	if err != nil {
		return nil, errors.Join(err, fast.close(), slow.close())
	}
	f := &Fleet{cfg: cfg, log: cfg.Log, rows: &Rows{client: fast, slow: &Rows{client: slow}}, ephemeral: ephemeral}
	f.rows.slow.slow = f.rows.slow
	f.registry = newRegistry(f)
	f.life, f.end = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := f.registry.Refresh(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.loops.Go(func() { f.registry.run(f.life) })
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

// Reconnect replaces the client of the ephemeral rows. After a lost session Oxia's client silently starts
// another at its next ephemeral put, and its heartbeats come late: their back-off never falls again. The
// registration ends with the old client, whose session is closed and its rows with it; register again.
// Where the instance does not answer, all stays as it was.
func (f *Fleet) Reconnect(ctx context.Context) error {
	f.reconnecting.Lock()
	defer f.reconnecting.Unlock()
	fresh, err := dial(ctx, f.cfg, f.cfg.ephemeral(), 0)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return errors.Join(errClosed, fresh.close())
	}
	old, registration := f.ephemeral, f.registration
	f.ephemeral, f.registration = fresh, nil
	f.mu.Unlock()
	if registration != nil {
		registration.declareLost("the client was replaced")
	}
	f.log.Info("the oxia client of the ephemeral rows was replaced")
	if err := old.close(); err != nil { // its session has gone already, as a rule
		f.log.Info("the replaced oxia client did not close cleanly", "err", err)
	}
	return nil
}

// Close ends the loops and the clients. Closing the ephemeral client ends its session, which removes its
// rows at once. It is bounded by about 2 s; where Oxia is away the session is left to its timeout.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	ephemeral := f.ephemeral
	f.mu.Unlock()
	f.end()
	clients := []*client{ephemeral, f.rows.client, f.rows.slow.client}
	errs := make([]error, len(clients))
	var closing sync.WaitGroup
	for i, c := range clients {
		closing.Go(func() { errs[i] = c.close() })
	}
	closing.Wait()
	f.loops.Wait()
	return errors.Join(errs...)
}

// client is the one for ephemeral rows, as it is now.
func (f *Fleet) client() *client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ephemeral
}

// member is the registration that stands, as far as this process knows.
func (f *Fleet) member() (*Registration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registration == nil || f.registration.over() {
		return nil, ErrNotRegistered
	}
	return f.registration, nil
}

// enter makes r the registration and starts its watch. It fails where r's client is no more the one in
// use, because its rows are then gone.
func (f *Fleet) enter(r *Registration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.ephemeral != r.client {
		return errClosed
	}
	f.registration = r
	f.loops.Go(r.watchRow)
	return nil
}
