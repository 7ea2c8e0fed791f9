// Package flightlogtest makes object stores fail on purpose, for tests of whatever stands on them.
//
// Wrap a copy, then say what its calls do: fail before they are carried out, fail after (a lost answer),
// take their time, hang, or find another store in this one's place. A call that hangs, or waits, ends
// with its context, as the store's own would.
//
//	c := flightlogtest.Wrap(copy)
//	c.Inject(flightlogtest.LoseAnswers(flightlogtest.Put))   // every put lands and none is answered
//	c.Inject(nil)                                            // healed
package flightlogtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"nova.internal/libs/flightlog"
)

// ErrInjected is what a call that was made to fail answers.
var ErrInjected = errors.New("injected fault")

// Op is one of a copy's calls.
type Op string

// A copy's calls.
const (
	Put       Op = "put"
	Overwrite Op = "overwrite"
	Get       Op = "get"
	GetRange  Op = "getrange"
	List      Op = "list"
	Confirm   Op = "confirm"
	Delete    Op = "delete"
)

// Call is one call that is about to be made.
type Call struct {
	Op  Op
	Key string // of a listing, the folder
	N   int    // which call of its Op this is, from 1
}

// Fault is what happens to one call. The zero value lets it through.
type Fault struct {
	Delay time.Duration   // before anything else
	Block <-chan struct{} // then wait until it is closed
	Err   error           // then answer this and do nothing
	Lose  error           // else carry it out and answer this
}

// Faults says what happens to each call. It is called concurrently.
type Faults func(Call) Fault

// Copy is a store with faults. It is safe for concurrent use.
type Copy struct {
	mu     sync.Mutex
	store  flightlog.Copy
	own    flightlog.Copy
	faults Faults
	counts map[Op]int
	calls  []Call
}

// Wrap returns c with no fault yet.
func Wrap(c flightlog.Copy) *Copy {
	return &Copy{store: c, own: c, counts: map[Op]int{}}
}

// Inject replaces what happens to calls from now on; nil heals.
func (c *Copy) Inject(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// Replace puts another store in this one's place, as a mount or a folder that was exchanged; nil puts
// the own one back.
func (c *Copy) Replace(other flightlog.Copy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store = other; other == nil {
		c.store = c.own
	}
}

// Calls are the calls of an op so far, in order.
func (c *Copy) Calls(op Op) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []Call
	for _, call := range c.calls {
		if call.Op == op {
			calls = append(calls, call)
		}
	}
	return calls
}

// Down fails every call before it is carried out.
func Down() Faults { return FailOn() }

// FailOn fails calls of the ops, or all, before they are carried out.
func FailOn(ops ...Op) Faults {
	return on(ops, func(c Call) Fault { return Fault{Err: fmt.Errorf("%s %s: %w", c.Op, c.Key, ErrInjected)} })
}

// LoseAnswers carries calls of the ops, or all, out and then fails them, unless they were refused anyway.
func LoseAnswers(ops ...Op) Faults {
	return on(ops, func(c Call) Fault { return Fault{Lose: fmt.Errorf("answer of %s %s: %w", c.Op, c.Key, ErrInjected)} })
}

// Slow delays calls of the ops, or all.
func Slow(d time.Duration, ops ...Op) Faults {
	return on(ops, func(Call) Fault { return Fault{Delay: d} })
}

// Hang holds calls of the ops, or all, until release is closed.
func Hang(release <-chan struct{}, ops ...Op) Faults {
	return on(ops, func(Call) Fault { return Fault{Block: release} })
}

func on(ops []Op, f Faults) Faults {
	return func(c Call) Fault {
		for _, op := range ops {
			if op == c.Op {
				return f(c)
			}
		}
		if len(ops) == 0 {
			return f(c)
		}
		return Fault{}
	}
}

// begin counts a call, applies what comes before it, and returns the store and what its answer becomes.
func (c *Copy) begin(ctx context.Context, op Op, key string) (flightlog.Copy, error, error) {
	c.mu.Lock()
	c.counts[op]++
	call := Call{Op: op, Key: key, N: c.counts[op]}
	c.calls = append(c.calls, call)
	faults := c.faults
	c.mu.Unlock()
	var f Fault
	if faults != nil {
		f = faults(call)
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if f.Block != nil {
		select {
		case <-f.Block:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store, f.Lose, f.Err
}

// Name is the wrapped store's.
func (c *Copy) Name() string { return c.own.Name() }

// Put puts, with faults. An answer that is lost takes the place of success alone: a store that refused
// has refused.
func (c *Copy) Put(ctx context.Context, key string, parts ...[]byte) error {
	store, lose, err := c.begin(ctx, Put, key)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, key, parts...); err != nil {
		return err
	}
	return lose
}

// Overwrite overwrites, with faults.
func (c *Copy) Overwrite(ctx context.Context, key string, parts ...[]byte) error {
	store, lose, err := c.begin(ctx, Overwrite, key)
	if err != nil {
		return err
	}
	if err := store.Overwrite(ctx, key, parts...); err != nil {
		return err
	}
	return lose
}

// Get reads, with faults.
func (c *Copy) Get(ctx context.Context, key string) ([]byte, error) {
	store, lose, err := c.begin(ctx, Get, key)
	if err = errors.Join(err, lose); err != nil {
		return nil, err
	}
	return store.Get(ctx, key)
}

// GetRange reads, with faults.
func (c *Copy) GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	store, lose, err := c.begin(ctx, GetRange, key)
	if err = errors.Join(err, lose); err != nil {
		return nil, err
	}
	return store.GetRange(ctx, key, offset, n)
}

// List lists, with faults.
func (c *Copy) List(ctx context.Context, folder, after string) iter.Seq2[flightlog.Object, error] {
	return func(yield func(flightlog.Object, error) bool) {
		store, lose, err := c.begin(ctx, List, folder)
		if err = errors.Join(err, lose); err != nil {
			yield(flightlog.Object{}, err)
			return
		}
		store.List(ctx, folder, after)(yield)
	}
}

// Confirm confirms, with faults.
func (c *Copy) Confirm(ctx context.Context, key string) error {
	store, lose, err := c.begin(ctx, Confirm, key)
	if err != nil {
		return err
	}
	return errors.Join(store.Confirm(ctx, key), lose)
}

// Delete deletes, with faults.
func (c *Copy) Delete(ctx context.Context, key string) error {
	store, lose, err := c.begin(ctx, Delete, key)
	if err != nil {
		return err
	}
	return errors.Join(store.Delete(ctx, key), lose)
}
