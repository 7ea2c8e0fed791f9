package flightlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
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
	want *Known

	mu     sync.Mutex
	is     string    // the identity, since the last call that failed; empty: not known
	looked time.Time // when a wrong or no identity was last seen
	wrong  error     // what was seen then
	wanted string    // and what would have been right
}

// Known is the identity under which the fleet knows a copy. It changes when another store is admitted in
// the copy's place: from then on the one before is refused. It is safe for concurrent use.
type Known struct{ id atomic.Pointer[string] }

// NewKnown returns a Known of the identity id.
func NewKnown(id string) *Known {
	k := &Known{}
	k.Set(id)
	return k
}

// Set replaces the identity.
func (k *Known) Set(id string) { k.id.Store(&id) }

// ID is the identity now.
func (k *Known) ID() string { return *k.id.Load() }

// Admit returns c guarded by its expected identity: while c holds another, or none, every call answers
// ErrNotAdmitted.
func Admit(c Copy, want string) Copy { return AdmitAs(c, NewKnown(want)) }

// AdmitAs is Admit with an identity that may change.
func AdmitAs(c Copy, want *Known) Copy { return &admitted{Copy: c, want: want} }

// check lets a call through to the expected store alone.
func (a *admitted) check(ctx context.Context) error {
	a.mu.Lock()
	want := a.want.ID()
	known, wrong, fresh := a.is != "" && a.is == want, a.wrong, a.wanted == want && time.Since(a.looked) < recheck
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
	_, err := a.identify(ctx)
	return err
}

// identify reads the identity, and says what is wrong with it.
func (a *admitted) identify(ctx context.Context) (string, error) {
	want := a.want.ID()
	id, err := Identify(ctx, a.Copy)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.is = ""
		return "", err
	case id == want && id != "":
		a.is, a.wrong = id, nil
		return id, nil
	}
	a.is, a.looked, a.wanted = "", time.Now(), want
	a.wrong = fmt.Errorf("copy %s: %w: the fleet knows it as %q, it holds %q; put the right store back, or admit this one", a.Name(), ErrNotAdmitted, want, id)
	return id, a.wrong
}

// note keeps the identity known only over answers that the store gave itself.
func (a *admitted) note(err error) error {
	if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrAbsent) && !errors.Is(err, context.Canceled) {
		a.mu.Lock()
		a.is = ""
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
