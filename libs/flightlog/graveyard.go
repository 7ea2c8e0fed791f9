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
// nothing; libs/epoch does. A call may be repeated, or broken off, at any point: what is half done is
// what the next vote finds.
type Graveyard struct {
	copies *Copies
	chain  string
	fencer string
}

const (
	// voteTimeout bounds one copy's answer: a copy that is slower counts as away for this vote.
	voteTimeout = 5 * time.Second
	// surveyHeaders is how many of a copy's newest flights are tried for one whose header can be read.
	surveyHeaders = 4
)

// NewGraveyard returns the chain's copies for the named fencer.
func NewGraveyard(copies *Copies, chain, fencer string) *Graveyard {
	return &Graveyard{copies: copies, chain: chain, fencer: fencer}
}

// Quorum is a majority of the chain's copies.
func (g *Graveyard) Quorum() int { return g.copies.Quorum() }

// Votes counts what the copies hold in one slot.
type Votes struct{ Flight, Poison, Empty, Away int }

// Holding is what one copy answers about a slot.
type Holding string

const (
	HoldsFlight  Holding = "flight" // or anything that is no well-formed poison
	HoldsPoison  Holding = "poison"
	HoldsNothing Holding = "empty"
	HoldsUnknown Holding = "away" // did not answer, is not admitted, or holds what only newer software can read
)

// Answer is one copy's.
type Answer struct {
	Copy  string
	Holds Holding
	Err   error // why it is away
}

// Vote asks every copy what it holds in the slot.
func (g *Graveyard) Vote(ctx context.Context, slot uint64) Votes {
	var v Votes
	for _, a := range g.Ask(ctx, slot) {
		switch a.Holds {
		case HoldsFlight:
			v.Flight++
		case HoldsPoison:
			v.Poison++
		case HoldsNothing:
			v.Empty++
		default:
			v.Away++
		}
	}
	return v
}

// Ask asks every copy what it holds in the slot, at once. An object counts only after it was made
// durable: its writer may have died between the link and the folder's fsync, and a vote that a power cut
// can take back is none.
func (g *Graveyard) Ask(ctx context.Context, slot uint64) []Answer {
	answers := make([]Answer, len(g.copies.List))
	g.each(ctx, voteTimeout, func(ctx context.Context, i int, c Copy) {
		holds, err := g.askOne(ctx, c, slot)
		answers[i] = Answer{c.Name(), holds, err}
	})
	return answers
}

func (g *Graveyard) askOne(ctx context.Context, c Copy, slot uint64) (Holding, error) {
	key := SlotKey(g.chain, slot)
	b, err := c.GetRange(ctx, key, 0, maxPoison+1)
	if errors.Is(err, ErrAbsent) {
		return HoldsNothing, nil
	}
	if err != nil {
		return HoldsUnknown, err
	}
	if err := c.Confirm(ctx, key); err != nil {
		return HoldsUnknown, err
	}
	kind, err := Classify(b, g.chain, slot)
	switch {
	case err != nil: // to guess could lose an acknowledged flight
		return HoldsUnknown, err
	case kind == KindPoison:
		return HoldsPoison, nil
	}
	return HoldsFlight, nil
}

// Complete copies the slot's flight, as one copy holds it whole and undamaged, to the copies where the
// slot is empty. Copies that did not take it are in the error; the next vote tells whether it matters.
func (g *Graveyard) Complete(ctx context.Context, slot uint64) error {
	whole, err := g.wholeFlight(ctx, slot)
	if err != nil {
		return fmt.Errorf("complete slot %d of %s: no copy holds the flight undamaged: %w", slot, g.chain, err)
	}
	return g.fill(ctx, slot, whole)
}

// Whole says whether a copy that answers holds the slot's flight undamaged.
func (g *Graveyard) Whole(ctx context.Context, slot uint64) bool {
	_, err := g.wholeFlight(ctx, slot)
	return err == nil
}

func (g *Graveyard) wholeFlight(ctx context.Context, slot uint64) ([]byte, error) {
	var errs []error
	for _, c := range g.copies.List {
		b, err := g.readWhole(ctx, c, slot)
		if err == nil {
			return b, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", c.Name(), err))
	}
	return nil, errors.Join(errs...)
}

func (g *Graveyard) readWhole(ctx context.Context, c Copy, slot uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	b, err := c.Get(ctx, SlotKey(g.chain, slot))
	if err != nil {
		return nil, err
	}
	p, err := Verify(b)
	if err != nil {
		return nil, err
	}
	return b, p.isOf(g.chain, slot)
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
	g.each(ctx, putTimeout, func(ctx context.Context, i int, c Copy) {
		if err := c.Put(ctx, key, object); err != nil && !errors.Is(err, ErrExists) {
			errs[i] = fmt.Errorf("%s: %w", c.Name(), err)
		}
	})
	return errors.Join(errs...)
}

// Survey is what one listing a copy tells about a chain above a floor.
type Survey struct {
	// Committed: every slot below it is committed, by what the writer noted in its newest flights; at
	// least the floor. So only the slots from here on need votes.
	Committed uint64
	Copies    []CopySurvey
}

// CopySurvey is one copy's part.
type CopySurvey struct {
	Copy string
	Any  bool   // something stands at or above the floor
	Last uint64 // the highest such slot
	Err  error  // the copy is away
}

// Survey lists the chain on every copy from slot floor on and reads a few headers.
func (g *Graveyard) Survey(ctx context.Context, floor uint64) Survey {
	s := Survey{Committed: floor, Copies: make([]CopySurvey, len(g.copies.List))}
	committed := make([]uint64, len(g.copies.List))
	g.each(ctx, putTimeout, func(ctx context.Context, i int, c Copy) {
		s.Copies[i], committed[i] = g.surveyOne(ctx, c, floor)
	})
	s.Committed = max(s.Committed, slices.Max(committed))
	return s
}

func (g *Graveyard) surveyOne(ctx context.Context, c Copy, floor uint64) (CopySurvey, uint64) {
	s := CopySurvey{Copy: c.Name()}
	after := ""
	if floor > 0 {
		after = SlotKey(g.chain, floor-1)
	}
	var newest []string
	for o, err := range c.List(ctx, "flights/"+g.chain, after) {
		if err != nil {
			s.Err = err
			return s, 0
		}
		newest = append(newest[max(0, len(newest)-surveyHeaders+1):], o.Key)
	}
	for _, key := range slices.Backward(newest) {
		slot, err := slotOf(key)
		if err != nil {
			continue // nova put no such key; what it did put is voted on
		}
		if !s.Any {
			s.Any, s.Last = true, slot
		}
		if p, err := readPrefix(ctx, c, key); err == nil && p.isOf(g.chain, slot) == nil {
			return s, p.Committed
		}
	}
	return s, 0
}

// Committed is Survey's.
func (g *Graveyard) Committed(ctx context.Context, floor uint64) uint64 {
	return g.Survey(ctx, floor).Committed
}

// each runs f for every copy at once and waits.
func (g *Graveyard) each(ctx context.Context, timeout time.Duration, f func(context.Context, int, Copy)) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var all sync.WaitGroup
	for i, c := range g.copies.List {
		all.Go(func() { f(ctx, i, c) })
	}
	all.Wait()
}
