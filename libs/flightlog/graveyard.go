package flightlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Graveyard is a dead writer's chain as its fencer sees it: votes, completion and poison. It decides
// nothing; libs/epoch does.
type Graveyard struct {
	copies *Copies
	chain  string
	fencer string
}

// voteTimeout bounds one copy's answer: a copy that is slower counts as away for this vote.
const voteTimeout = 5 * time.Second

// NewGraveyard returns the chain's copies for the named fencer.
func NewGraveyard(copies *Copies, chain, fencer string) *Graveyard {
	return &Graveyard{copies: copies, chain: chain, fencer: fencer}
}

// Votes is what the copies hold in one slot.
type Votes struct{ Flight, Poison, Empty, Away int }

type vote int

const (
	away vote = iota
	empty
	flight
	poison
)

// Vote asks every copy what it holds in the slot. An object counts only after it was made durable.
func (g *Graveyard) Vote(ctx context.Context, slot uint64) Votes {
	var v Votes
	for _, one := range g.votes(ctx, slot) {
		switch one {
		case away:
			v.Away++
		case empty:
			v.Empty++
		case flight:
			v.Flight++
		case poison:
			v.Poison++
		}
	}
	return v
}

func (g *Graveyard) votes(ctx context.Context, slot uint64) []vote {
	votes := make([]vote, len(g.copies.List))
	g.each(ctx, func(ctx context.Context, i int, c Copy) { votes[i] = g.voteOf(ctx, c, slot) })
	return votes
}

func (g *Graveyard) voteOf(ctx context.Context, c Copy, slot uint64) vote {
	key := SlotKey(g.chain, slot)
	b, err := c.GetRange(ctx, key, 0, maxPoison+1)
	if errors.Is(err, ErrAbsent) {
		return empty
	}
	if err != nil || c.Confirm(ctx, key) != nil {
		return away
	}
	kind, err := Classify(b, g.chain, slot)
	switch {
	case err != nil: // only newer software can tell; to guess could lose an acknowledged flight
		return away
	case kind == KindPoison:
		return poison
	}
	return flight
}

// Complete copies the slot's flight, as one copy holds it whole and undamaged, to the copies where the
// slot is empty.
func (g *Graveyard) Complete(ctx context.Context, slot uint64) error {
	key := SlotKey(g.chain, slot)
	var whole []byte
	for _, c := range g.copies.List {
		b, err := c.Get(ctx, key)
		if err != nil {
			continue
		}
		if p, err := Verify(b); err == nil && p.Chain == g.chain && p.Slot == slot {
			whole = b
			break
		}
	}
	if whole == nil {
		return fmt.Errorf("complete slot %d of %s: no copy holds the flight undamaged", slot, g.chain)
	}
	return g.fill(ctx, slot, whole)
}

// Poison puts a poison on the copies where the slot is empty.
func (g *Graveyard) Poison(ctx context.Context, slot uint64) error {
	p := Poison{Chain: g.chain, Slot: slot, Fencer: g.fencer}
	_, _ = rand.Read(p.Nonce[:]) // never fails
	return g.fill(ctx, slot, p.Encode())
}

func (g *Graveyard) fill(ctx context.Context, slot uint64, object []byte) error {
	key := SlotKey(g.chain, slot)
	errs := make([]error, len(g.copies.List))
	g.each(ctx, func(ctx context.Context, i int, c Copy) {
		if err := c.Put(ctx, key, object); err != nil && !errors.Is(err, ErrExists) {
			errs[i] = err
		}
	})
	return errors.Join(errs...)
}

// Committed returns a slot below which every slot of the chain is known to be committed, by what its
// newest flights note of themselves; at least floor. One listing a copy and a few headers replace the
// votes on a long chain.
func (g *Graveyard) Committed(ctx context.Context, floor uint64) uint64 {
	var mu sync.Mutex
	committed := floor
	g.each(ctx, func(ctx context.Context, _ int, c Copy) {
		var newest []Object
		for o, err := range c.List(ctx, "flights/"+g.chain, SlotKey(g.chain, floor)) {
			if err != nil {
				return // the votes will tell what this copy holds
			}
			newest = append(newest[max(0, len(newest)-3):], o)
		}
		for _, o := range slices.Backward(newest) {
			p, err := readPrefix(ctx, c, o.Key)
			if err != nil || p.Chain != g.chain {
				continue
			}
			mu.Lock()
			committed = max(committed, p.Committed)
			mu.Unlock()
			return
		}
	})
	return committed
}

// each runs f for every copy at once and waits.
func (g *Graveyard) each(ctx context.Context, f func(context.Context, int, Copy)) {
	ctx, cancel := context.WithTimeout(ctx, voteTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, c := range g.copies.List {
		all.Go(func() { f(ctx, i, c) })
	}
	all.Wait()
}

// Quorum is a majority of the chain's copies.
func (g *Graveyard) Quorum() int { return g.copies.Quorum() }
