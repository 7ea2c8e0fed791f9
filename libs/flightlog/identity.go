package flightlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// identityKey is the object that says which store a copy is.
const identityKey = "nova-copy.json"

type identity struct {
	Copy string `json:"copy"` // ULID
}

// Identify reads which store c is; "" for a blank one.
func Identify(ctx context.Context, c Copy) (string, error) {
	b, err := c.Get(ctx, identityKey)
	if errors.Is(err, ErrAbsent) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("identify copy %s: %w", c.Name(), err)
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return "", fmt.Errorf("identify copy %s: %w", c.Name(), err)
	}
	return id.Copy, nil
}

// Format gives a blank store an identity and returns the one that stands, which is another's when two
// format at once.
func Format(ctx context.Context, c Copy) (string, error) {
	b, err := json.Marshal(identity{Copy: ulid.Make().String()})
	if err != nil {
		return "", err
	}
	if err := c.Put(ctx, identityKey, b); err != nil && !errors.Is(err, ErrExists) {
		return "", fmt.Errorf("format copy %s: %w", c.Name(), err)
	}
	return Identify(ctx, c)
}

// Probe finds out whether a store keeps what nova's safety rests on: a put is refused where an object
// stands, one of two racing puts wins, and what was put is read back.
func Probe(ctx context.Context, c Copy) error {
	key := "probes/" + ulid.Make().String()
	defer func() { _ = c.Delete(context.WithoutCancel(ctx), key) }() // a probe left behind does no harm
	fail := func(doing string, err error) error {
		return fmt.Errorf("probe copy %s: %s: %w", c.Name(), doing, err)
	}
	contents := [][]byte{[]byte("one"), []byte("two")}
	errs := make([]error, 2)
	var race sync.WaitGroup
	for i := range contents {
		race.Go(func() { errs[i] = c.Put(ctx, key, contents[i]) })
	}
	race.Wait()
	winner := 0
	switch {
	case errs[0] == nil && errors.Is(errs[1], ErrExists):
	case errs[1] == nil && errors.Is(errs[0], ErrExists):
		winner = 1
	case errs[0] == nil && errs[1] == nil:
		return fail("two racing puts", errors.New("both were accepted: the store has no create-if-absent"))
	default:
		return fail("put an object", errors.Join(errs...))
	}
	if err := c.Put(ctx, key, []byte("three")); !errors.Is(err, ErrExists) {
		return fail("put over an object", fmt.Errorf("it was not refused (%v)", err))
	}
	b, err := c.Get(ctx, key)
	if err != nil {
		return fail("read back", err)
	}
	if !bytes.Equal(b, contents[winner]) {
		return fail("read back", errors.New("other bytes than were put"))
	}
	return nil
}

// recheck is how soon a copy that was not the expected store is looked at again.
const recheck = 2 * time.Second

// admitted passes calls to a store only while it is the one that the copy is known as. A call that
// failed makes the next one look again: a store that went away may come back blank, and a blank store
// that voted would turn acknowledged records into nothing.
type admitted struct {
	Copy
	want string

	mu     sync.Mutex
	known  bool
	looked time.Time
}

// Admit returns c guarded by its expected identity.
func Admit(c Copy, want string) Copy { return &admitted{Copy: c, want: want} }

func (a *admitted) check(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known {
		return nil
	}
	if time.Since(a.looked) < recheck {
		return fmt.Errorf("copy %s: %w", a.Name(), ErrNotAdmitted)
	}
	id, err := Identify(ctx, a.Copy)
	if err != nil {
		return err
	}
	if id != a.want {
		a.looked = time.Now()
		return fmt.Errorf("copy %s: %w: it holds identity %q, the fleet knows it as %q; admit it, or put the right store back", a.Name(), ErrNotAdmitted, id, a.want)
	}
	a.known = true
	return nil
}

// note looks at a call's error: what the store has decided leaves it known. That an object is absent is
// believed only of a store that is, right then, still the expected one.
func (a *admitted) note(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ErrExists) || errors.Is(err, context.Canceled) {
		return err
	}
	a.mu.Lock()
	a.known = false
	a.mu.Unlock()
	if errors.Is(err, ErrAbsent) {
		if cerr := a.check(ctx); cerr != nil {
			return cerr
		}
	}
	return err
}

func (a *admitted) Put(ctx context.Context, key string, parts ...[]byte) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	return a.note(ctx, a.Copy.Put(ctx, key, parts...))
}

func (a *admitted) Get(ctx context.Context, key string) ([]byte, error) {
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	b, err := a.Copy.Get(ctx, key)
	return b, a.note(ctx, err)
}

func (a *admitted) GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	b, err := a.Copy.GetRange(ctx, key, offset, n)
	return b, a.note(ctx, err)
}

func (a *admitted) List(ctx context.Context, folder string) ([]Object, error) {
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	objects, err := a.Copy.List(ctx, folder)
	if err == nil && len(objects) == 0 {
		err = a.note(ctx, ErrAbsent)
		if errors.Is(err, ErrAbsent) {
			err = nil
		}
		return objects, err
	}
	return objects, a.note(ctx, err)
}

func (a *admitted) Confirm(ctx context.Context, key string) error {
	if err := a.check(ctx); err != nil {
		return err
	}
	return a.note(ctx, a.Copy.Confirm(ctx, key))
}
