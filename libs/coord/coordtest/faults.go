package coordtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/oxia-db/oxia/oxia"

	"nova.internal/libs/coord"
)

// ErrLost is what a call ends with whose answer was lost, or that was never sent.
var ErrLost = errors.New("coordtest: no answer")

// Fault decides over one call. apply carries it out and returns its error; a fault that returns nil without
// applying invents an empty answer.
type Fault func(ctx context.Context, apply func() error) error

// Lose carries the call out and loses the answer.
func Lose(_ context.Context, apply func() error) error { return errors.Join(apply(), ErrLost) }

// Drop does not carry the call out, which looks like Lose from outside.
func Drop(context.Context, func() error) error { return ErrLost }

// Repeat carries the call out twice and answers with the second outcome, as Oxia's client does after a
// lost answer.
func Repeat(_ context.Context, apply func() error) error {
	_ = apply() // its answer was lost
	return apply()
}

// Hang gives no answer as long as the client lives.
func Hang(ctx context.Context, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// Delay carries the call out after d.
func Delay(d time.Duration) Fault {
	return func(ctx context.Context, apply func() error) error {
		select {
		case <-time.After(d):
			return apply()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Hold carries the call out once release is closed.
func Hold(release <-chan struct{}) Fault {
	return func(ctx context.Context, apply func() error) error {
		select {
		case <-release:
			return apply()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Faults is a set of rules, for coord.Config.Wrap. It is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex
	rules []*Rule
}

// Rule is one fault for the calls that it names.
type Rule struct {
	faults *Faults
	op     string
	prefix string
	fault  Fault
	left   int // calls that it still takes; negative: all
	hits   int
}

// On applies fault to each call of op ("put", "get", "delete", "deleteRange" or "scan"; "" for all) whose
// key begins with prefix. Of several rules the first that fits is taken.
func (f *Faults) On(op, prefix string, fault Fault) *Rule {
	r := &Rule{faults: f, op: op, prefix: prefix, fault: fault, left: -1}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
	return r
}

// Times limits the rule to the next n calls.
func (r *Rule) Times(n int) *Rule {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.left = n
	return r
}

// Off ends the rule. Calls that it holds already stay held.
func (r *Rule) Off() { r.Times(0) }

// Hits counts the calls that the rule took.
func (r *Rule) Hits() int {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	return r.hits
}

func (f *Faults) do(ctx context.Context, op, key string, apply func() error) error {
	f.mu.Lock()
	for _, r := range f.rules {
		if r.left == 0 || r.op != "" && r.op != op || !strings.HasPrefix(key, r.prefix) {
			continue
		}
		r.left, r.hits = max(r.left-1, -1), r.hits+1
		f.mu.Unlock()
		return r.fault(ctx, apply)
	}
	f.mu.Unlock()
	return apply()
}

// Wrap is for coord.Config.Wrap.
func (f *Faults) Wrap(_ string, kv coord.KV) coord.KV { return faulty{kv, f} }

type faulty struct {
	coord.KV
	faults *Faults
}

func (f faulty) Put(ctx context.Context, key string, value []byte, options ...oxia.PutOption) (at string, version oxia.Version, err error) {
	err = f.faults.do(ctx, "put", key, func() (err error) {
		at, version, err = f.KV.Put(ctx, key, value, options...)
		return err
	})
	return at, version, err
}

func (f faulty) Get(ctx context.Context, key string, options ...oxia.GetOption) (at string, value []byte, version oxia.Version, err error) {
	err = f.faults.do(ctx, "get", key, func() (err error) {
		at, value, version, err = f.KV.Get(ctx, key, options...)
		return err
	})
	return at, value, version, err
}

func (f faulty) Delete(ctx context.Context, key string, options ...oxia.DeleteOption) error {
	return f.faults.do(ctx, "delete", key, func() error { return f.KV.Delete(ctx, key, options...) })
}

func (f faulty) DeleteRange(ctx context.Context, from, to string, options ...oxia.DeleteRangeOption) error {
	return f.faults.do(ctx, "deleteRange", from, func() error { return f.KV.DeleteRange(ctx, from, to, options...) })
}

// RangeScan applies the fault to the scan's begin: a lost one ends with the error, before any row.
func (f faulty) RangeScan(ctx context.Context, from, to string, options ...oxia.RangeScanOption) <-chan oxia.GetResult {
	out := make(chan oxia.GetResult, 1)
	go func() {
		defer close(out)
		var rows <-chan oxia.GetResult
		if err := f.faults.do(ctx, "scan", from, func() error {
			rows = f.KV.RangeScan(ctx, from, to, options...)
			return nil
		}); err != nil {
			out <- oxia.GetResult{Err: err}
			if rows == nil {
				return
			}
			for g := range rows {
				if g.Err != nil {
					return
				}
			}
			return
		}
		for g := range rows {
			out <- g
			if g.Err != nil {
				return // the channel is not always closed then
			}
		}
	}()
	return out
}
