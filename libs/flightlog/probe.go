package flightlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// probeTimeout bounds a probe and its clearing up: a store that hangs is as good as away.
const probeTimeout = 10 * time.Second

// Probe finds out whether a store keeps what nova's safety rests on: a put is refused where an object
// stands, one of two racing puts wins, and what was put is read back.
func Probe(ctx context.Context, c Copy) error {
	key := "probes/" + ulid.Make().String()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		_ = c.Delete(ctx, key) // a probe left behind does no harm
	}()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := probe(ctx, c, key); err != nil {
		return fmt.Errorf("probe copy %s: %w", c.Name(), err)
	}
	return nil
}

func probe(ctx context.Context, c Copy, key string) error {
	contents := [][]byte{[]byte("one"), []byte("two")}
	errs := make([]error, len(contents))
	var race sync.WaitGroup
	for i := range contents {
		race.Go(func() { errs[i] = c.Put(ctx, key, contents[i]) })
	}
	race.Wait()
	winner := 0
	switch {
	case errs[0] == nil && errs[1] == nil:
		return errors.New("two racing puts of one object were both accepted: the store has no create-if-absent")
	case errs[0] == nil && errors.Is(errs[1], ErrExists):
	case errs[1] == nil && errors.Is(errs[0], ErrExists):
		winner = 1
	case errs[0] != nil && !errors.Is(errs[0], ErrExists):
		return errs[0]
	case errs[1] != nil && !errors.Is(errs[1], ErrExists):
		return errs[1]
	default:
		return errors.New("two racing puts of one new object were both refused")
	}
	switch err := c.Put(ctx, key, []byte("three")); {
	case err == nil:
		return errors.New("a put over an object was accepted: the store has no create-if-absent")
	case !errors.Is(err, ErrExists):
		return err
	}
	switch b, err := c.Get(ctx, key); {
	case err != nil:
		return err
	case !bytes.Equal(b, contents[winner]):
		return fmt.Errorf("read back %q, put %q", b, contents[winner])
	}
	return nil
}
