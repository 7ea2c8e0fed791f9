package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oxia-db/oxia/oxia"
)

// KV is what coord uses of an Oxia client. Tests wrap it to lose, delay and refuse calls.
type KV interface {
	Put(ctx context.Context, key string, value []byte, options ...oxia.PutOption) (string, oxia.Version, error)
	Delete(ctx context.Context, key string, options ...oxia.DeleteOption) error
	DeleteRange(ctx context.Context, from, to string, options ...oxia.DeleteRangeOption) error
	Get(ctx context.Context, key string, options ...oxia.GetOption) (string, []byte, oxia.Version, error)
	RangeScan(ctx context.Context, from, to string, options ...oxia.RangeScanOption) <-chan oxia.GetResult
	Close() error
}

var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("no such row")
	// ErrConflict: another writer's row stands at another version.
	ErrConflict = errors.New("conflict: another write came first")
	// ErrUnknown: the call may or may not have been carried out. Read before writing again.
	ErrUnknown = errors.New("outcome unknown")
)

// fleetPartition is the one partition key of every ephemeral row.
const fleetPartition = "fleet"

func dial(cfg Config, store, address, namespace string, linger time.Duration) (KV, error) {
	options := []oxia.ClientOption{
		oxia.WithNamespace(namespace), oxia.WithBatchLinger(linger),
		oxia.WithRequestTimeout(cfg.RequestTimeout), oxia.WithSessionTimeout(cfg.SessionTimeout),
	}
	if cfg.Identity != "" {
		options = append(options, oxia.WithIdentity(cfg.Identity))
	}
	type dialled struct {
		client oxia.SyncClient
		err    error
	}
	done := make(chan dialled, 1)
	go func() { // the client's own dial takes no context; it ends by its request timeout
		client, err := oxia.NewSyncClient(address, options...)
		done <- dialled{client, err}
	}()
	timer := time.NewTimer(cfg.DialTimeout)
	defer timer.Stop()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("no answer from oxia (%s) at %s: %w; is it running, and is the address right?", store, address, d.err)
		}
		var kv KV = d.client
		if cfg.Wrap != nil {
			kv = cfg.Wrap(store, kv)
		}
		return patient{kv}, nil
	case <-timer.C:
		go func() {
			if d := <-done; d.err == nil {
				_ = d.client.Close() // nobody waits for it any more
			}
		}()
		return nil, fmt.Errorf("no answer from oxia (%s) at %s within %v; is it running, and is the address right?", store, address, cfg.DialTimeout)
	}
}

// verdict turns an answer of the client into one of coord's outcomes. What the server has decided is
// known; everything else (timeouts, broken connections) is not.
func verdict(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, oxia.ErrKeyNotFound):
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	case errors.Is(err, oxia.ErrUnexpectedVersionId):
		return fmt.Errorf("%s: %w", doing, ErrConflict)
	case errors.Is(err, oxia.ErrRequestTooLarge), errors.Is(err, oxia.ErrInvalidOptions):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnknown, err)
}

// patient lets a caller give up on a call while the call itself goes on until the client answers it, or
// its request timeout ends it.
//
// Oxia's client hands over the answer of a read without a buffer: where nobody takes it any more, every
// later read of that shard waits behind it for ever. And while a session cannot be started, an ephemeral
// put blocks inside the client whatever its context says. So no call of the client ever sees a caller's
// context, and each answer is taken.
type patient struct{ KV }

func (p patient) Get(ctx context.Context, key string, options ...oxia.GetOption) (string, []byte, oxia.Version, error) {
	type answer struct {
		key     string
		value   []byte
		version oxia.Version
	}
	a, err := aside(ctx, func(ctx context.Context) (a answer, err error) {
		a.key, a.value, a.version, err = p.KV.Get(ctx, key, options...)
		return a, err
	})
	return a.key, a.value, a.version, err
}

func (p patient) Put(ctx context.Context, key string, value []byte, options ...oxia.PutOption) (string, oxia.Version, error) {
	type answer struct {
		key     string
		version oxia.Version
	}
	a, err := aside(ctx, func(ctx context.Context) (a answer, err error) {
		a.key, a.version, err = p.KV.Put(ctx, key, value, options...)
		return a, err
	})
	return a.key, a.version, err
}

func (p patient) Delete(ctx context.Context, key string, options ...oxia.DeleteOption) error {
	_, err := aside(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.KV.Delete(ctx, key, options...) })
	return err
}

func (p patient) DeleteRange(ctx context.Context, from, to string, options ...oxia.DeleteRangeOption) error {
	_, err := aside(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.KV.DeleteRange(ctx, from, to, options...)
	})
	return err
}

// aside runs call to its end and returns its answer, or ctx's error when that comes first.
func aside[A any](ctx context.Context, call func(context.Context) (A, error)) (A, error) {
	type outcome struct {
		answer A
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := call(context.WithoutCancel(ctx))
		done <- outcome{a, err}
	}()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// putEphemeral writes an ephemeral row. It is the only function that does: a rewrite without the flag
// would leave the row standing for ever.
func putEphemeral(ctx context.Context, kv KV, key string, value []byte, at Version) (oxia.Version, error) {
	options := []oxia.PutOption{oxia.Ephemeral(), oxia.PartitionKey(fleetPartition)}
	switch {
	case at == Absent:
		options = append(options, oxia.ExpectedRecordNotExists())
	case at != anyVersion:
		options = append(options, oxia.ExpectedVersionId(int64(at)))
	}
	_, version, err := kv.Put(ctx, key, value, options...)
	return version, verdict("write "+key, err)
}
