package star

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/flightlog"
)

// graves are the dead chains that this star has sealed and read. A sealed chain never changes, so one
// pass over its un-absorbed flights serves every stream that was led on it.
type graves struct {
	star   *Star
	flight singleflight.Group
	read   *lru.Cache[string, *grave]
}

// gravesKept bounds the dead chains whose index is kept in memory.
const gravesKept = 32

// grave is what a sealed chain holds at or above its floor.
type grave struct {
	row     *novav1.ChainRow
	byID    map[string][]epoch.Batch
	ordered []string
}

func newGraves(s *Star) *graves {
	cache, _ := lru.New[string, *grave](gravesKept) // errs only on a size below one
	return &graves{star: s, read: cache}
}

// open seals the chain, which must be dead by a fresh read, and returns its index.
func (g *graves) open(ctx context.Context, chain string) (*grave, error) {
	if known, ok := g.read.Get(chain); ok {
		return known, nil
	}
	result := g.flight.DoChan(chain, func() (any, error) {
		ctx, cancel := context.WithTimeout(g.star.ctx, gateLifetime)
		defer cancel()
		opened, err := g.dig(ctx, chain)
		if err == nil {
			g.read.Add(chain, opened)
		}
		return opened, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*grave), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *graves) dig(ctx context.Context, chain string) (*grave, error) {
	began := time.Now()
	_, _, class, err := flightlog.ParseChain(chain)
	if err != nil {
		return nil, err
	}
	row, err := g.seal(ctx, chain, class)
	if err != nil {
		return nil, err
	}
	opened := &grave{row: row, byID: map[string][]epoch.Batch{}}
	if row.GetState() == novav1.ChainState_CHAIN_STATE_SETTLED {
		return opened, nil
	}
	reader := g.star.readers[class]
	for slot := row.GetFloor(); slot < row.GetSeal(); slot++ {
		refs, err := reader.Descriptors(ctx, chain, slot)
		if err != nil {
			return nil, fmt.Errorf("read slot %d of the sealed chain %s: %w", slot, chain, err)
		}
		for _, r := range refs {
			if _, ok := opened.byID[r.Stream]; !ok {
				opened.ordered = append(opened.ordered, r.Stream)
			}
			opened.byID[r.Stream] = append(opened.byID[r.Stream], located(chain, r))
		}
	}
	g.star.log.Info("read a dead chain", "chain", chain, "floor", row.GetFloor(), "seal", row.GetSeal(), "streams", len(opened.ordered), "took", time.Since(began))
	return opened, nil
}

// seal fences the chain under its role row, so that as a rule one star walks it; the set of the chain
// row arbitrates when two do.
func (g *graves) seal(ctx context.Context, chain string, class novav1.Class) (*novav1.ChainRow, error) {
	row := &novav1.ChainRow{}
	_, err := g.star.fleet.Rows().Get(ctx, coord.ChainKey(chain), row)
	if err == nil && row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
		return row, nil
	}
	role, err := g.star.fleet.Roles().Claim(ctx, "fence/"+chain)
	if errors.Is(err, coord.ErrHeld) {
		if sealed := g.awaitSeal(ctx, chain); sealed != nil {
			return sealed, nil
		}
	} else if err == nil {
		defer func() { _ = role.Release(context.WithoutCancel(ctx)) }() // else it ends with the session
	}
	began := time.Now()
	sealed, err := epoch.Fence(ctx, g.star.fleet.Rows(), chain, class, fencing{flightlog.NewGraveyard(g.star.copies[class], chain, g.star.cfg.Star)})
	if err != nil {
		return nil, err
	}
	g.star.report.chainSealed(chain, sealed.GetSeal(), time.Since(began))
	return sealed, nil
}

// awaitSeal gives the fencer that holds the role a moment.
func (g *graves) awaitSeal(ctx context.Context, chain string) *novav1.ChainRow {
	for range 40 {
		row := &novav1.ChainRow{}
		if _, err := g.star.fleet.Rows().Get(ctx, coord.ChainKey(chain), row); err == nil && row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
			return row
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return nil
		}
	}
	return nil
}

func (g *grave) batches(id string) []epoch.Batch { return g.byID[id] }

func (g *grave) streams() []string { return g.ordered }

// end is the sequence after the last batch of the stream at epoch e in the chain.
func (g *grave) end(id string, e uint64) uint64 {
	end := uint64(0)
	for _, b := range g.byID[id] {
		if b.Epoch == e {
			end = max(end, b.End())
		}
	}
	return end
}

func starOf(chain string) string {
	star, _, _ := strings.Cut(chain, "/")
	return star
}
