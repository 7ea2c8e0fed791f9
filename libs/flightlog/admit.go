package flightlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// recheck is how soon a copy that was found not to be the expected store is looked at again.
const recheck = 2 * time.Second

// admitted passes calls to a store only while it is the one that the copy is known as.
//
// A store that went away may come back blank: an unmounted folder, a bucket made anew. A blank store that
// voted "nothing here" would turn acknowledged records into nothing, and one that took puts would make a
// quorum of objects that nobody finds after the right store is back. So a call that failed makes the next
// one look at the identity again, and two answers count only when the identity was read after them: that
// a put has succeeded, and that an object is absent.
type admitted struct {
	Copy
	want string

	mu     sync.Mutex
	known  bool      // since the last call that failed
	looked time.Time // when a wrong or no identity was last seen
	wrong  error     // what was seen then
}

// Admit returns c guarded by its expected identity: while c holds another, or none, every call answers
// ErrNotAdmitted.
func Admit(c Copy, want string) Copy { return &admitted{Copy: c, want: want} }

// check lets a call through to the expected store alone.
func (a *admitted) check(ctx context.Context) error {
	a.mu.Lock()
	known, wrong, fresh := a.known, a.wrong, time.Since(a.looked) < recheck
	a.mu.Unlock()
	switch {
	case known:
		return nil
	case wrong != nil && fresh:
		return wrong
	}
	return a.verify(ctx)
}

// verify reads the identity.
func (a *admitted) verify(ctx context.Context) error {
	id, err := Identify(ctx, a.Copy)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.known = false
		return err
	case id == a.want:
		a.known, a.wrong = true, nil
		return nil
	}
	a.known, a.looked = false, time.Now()
	a.wrong = fmt.Errorf("copy %s: %w: the fleet knows it as %q, it holds %q; put the right store back, or admit this one", a.Name(), ErrNotAdmitted, a.want, id)
	return a.wrong
}

// note keeps the identity known only over answers that the store gave itself.
func (a *admitted) note(err error) error {
	if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrAbsent) && !errors.Is(err, context.Canceled) {
		a.mu.Lock()
		a.known = false
		a.mu.Unlock()
	}
	return err
}

func (a *admitted) Put(ctx context.Context, key string, parts ...[]byte) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	if err := a.note(a.Copy.Put(ctx, key, parts...)); err != nil {
		return err
	}
	return a.verify(ctx)
}

func (a *admitted) Overwrite(ctx context.Context, key string, parts ...[]byte) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	if err := a.absence(ctx, a.Copy.Overwrite(ctx, key, parts...)); err != nil {
		return err
	}
	return a.verify(ctx)
}

func (a *admitted) Get(ctx context.Context, key string) ([]byte, error) {
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	b, err := a.Copy.Get(ctx, key)
	return b, a.absence(ctx, err)
}

func (a *admitted) GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	b, err := a.Copy.GetRange(ctx, key, offset, n)
	return b, a.absence(ctx, err)
}

// absence believes "no such object" of the expected store alone.
func (a *admitted) absence(ctx context.Context, err error) error {
	if errors.Is(err, ErrAbsent) {
		if wrong := a.verify(ctx); wrong != nil {
			return wrong
		}
	}
	return a.note(err)
}

func (a *admitted) List(ctx context.Context, folder, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := a.check(ctx); err != nil {
			yield(Object{}, err)
			return
		}
		for o, err := range a.Copy.List(ctx, folder, after) {
			if !yield(o, a.note(err)) || err != nil {
				return
			}
		}
		if err := a.verify(ctx); err != nil { // what was not listed is taken to be absent
			yield(Object{}, err)
		}
	}
}

func (a *admitted) Confirm(ctx context.Context, key string) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	return a.note(a.Copy.Confirm(ctx, key))
}

func (a *admitted) Delete(ctx context.Context, key string) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	return a.note(a.Copy.Delete(ctx, key))
}
