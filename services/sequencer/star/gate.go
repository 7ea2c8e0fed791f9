package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/services/sequencer/star/dedupe"
	"nova.internal/services/sequencer/star/lifecycle"
)

// How long a gate waits, and how it paces itself.
const (
	gateLifetime  = 60 * time.Second // then it gives up
	transferGrace = 2 * time.Second  // parked on a lease that is about to go (specification, "Handoff")
	parkPoll      = 2 * time.Millisecond
	retryFirst    = 20 * time.Millisecond
	retryMost     = time.Second
)

// gate is one open of a vacant stream's gate: a task of its own, which callers join and whose end none
// of them can hasten. It keeps its lease and its epoch over its retries.
type gate struct {
	done     chan struct{}
	err      error  // valid after done: why it did not pass
	from     string // the star whose lease is about to go, if any
	claim    string
	reopen   bool
	fenced   bool
	settling bool // for no producer: to bring a dead leader's stream to a mark
	handoff  string
	trigger  string

	minted  uint64 // the epoch this gate has taken, 0 before
	scanned bool   // minted by Begin: evidence is being gathered
}

// wait returns when the gate has ended, with its refusal if it has one.
func (g *gate) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runGate drives the stream's gate to its end.
//
// What a crash leaves, step by step, and who goes on:
//
//	after the lease        an advisory row that ends with the session
//	after Begin            head: epoch+1, opening=me, holder as before. The next opener takes epoch+2 and
//	                       gathers the same evidence from the same holder; this gate never served
//	after segment rows     orphans above covered; of an older epoch for whoever comes next, who overwrites them
//	after the last set     head: holder=me. The next opener finds a holder without a mark, fences this
//	                       incarnation's chain and finds nothing in it above covered
//
// A lost answer of Begin, of Take or of the last set is met by reading the head again: an epoch that this
// gate minted is recognised by the incarnation's chain and the number.
func (s *stream) runGate() {
	star := s.inc.star
	g := s.gate
	ctx, cancel := context.WithTimeout(star.ctx, gateLifetime)
	defer cancel()
	began := time.Now()

	lease, err := s.acquire(ctx, g)
	var passed *passage
	if err == nil {
		pause := retryFirst
		for {
			if passed, err = s.tryGate(ctx, g); err == nil || !retryable(err) {
				break
			}
			star.log.Debug("gate waits", "stream", s.name, "epoch", g.minted, "err", err)
			if !sleep(ctx, pause) {
				break
			}
			pause = min(2*pause, retryMost)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if lease != nil {
		s.lease, s.leased = *lease, true
	}
	g.err = refusal(err, "open "+s.name)
	if err != nil {
		s.fire(lifecycle.GateFailed{})
	} else {
		s.lead(g, passed, time.Since(began))
		s.fire(lifecycle.GatePassed{})
	}
	close(g.done)
}

// acquire takes the stream's lease, parking while the star that sent the producer here still has it, or
// while somebody settles the stream.
func (s *stream) acquire(ctx context.Context, g *gate) (*coord.Lease, error) {
	star := s.inc.star
	grace := time.Now().Add(transferGrace)
	pause := parkPoll
	for {
		lease, err := star.fleet.Leases().Acquire(ctx, s.id, g.settling)
		var held *coord.HeldError
		switch {
		case err == nil:
			if lease.Healed {
				star.report.healed(s, lease.Age)
			}
			return &lease, nil
		case errors.As(err, &held):
			leaving := held.Row.GetStar() == g.from || held.Row.GetSettling()
			if leaving && time.Now().Before(grace) {
				if sleep(ctx, pause) {
					continue
				}
				return nil, ctx.Err()
			}
			if leaving && !held.Row.GetSettling() {
				return nil, unavailable(novav1.Unavailable_REASON_DEPARTING, fmt.Sprintf("star %s has not let go of the stream yet", held.Row.GetStar()))
			}
			return nil, star.notOwner(ctx, held.Row.GetStar())
		case retryable(err):
			// The answer may be lost and the lease ours: the next try re-attaches it.
			if !sleep(ctx, retryFirst) {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// passage is what a passed gate brings to the leadership.
type passage struct {
	head      *novav1.HeadRow
	table     []*novav1.ProducerState
	coverage  novav1.Coverage
	recovered uint64 // records that the gate published
	before    *novav1.HeadRow
}

// tryGate goes through the gate once. A retryable error leaves all that was reached in the head.
func (s *stream) tryGate(ctx context.Context, g *gate) (*passage, error) {
	head, err := s.guard.Read(ctx)
	if err != nil {
		return nil, err
	}
	if head == nil {
		head = &novav1.HeadRow{Id: s.id}
	}
	before := proto.CloneOf(head)
	if g.minted != 0 {
		if head.GetEpoch() != g.minted {
			return nil, unavailable(novav1.Unavailable_REASON_OVERTAKEN, fmt.Sprintf("another star took epoch %d while this gate was at %d", head.GetEpoch(), g.minted))
		}
		if head.GetHolder().GetEpoch() == g.minted {
			return s.passed(ctx, head, before, 0)
		}
	}
	if g.settling && epoch.CleanlyReleased(head) {
		return nil, errSettled // by somebody else, meanwhile: no epoch is spent on it
	}
	if to := head.GetSuccessor(); g.handoff == "" && to.GetStar() == s.inc.star.cfg.Star {
		g.handoff = to.GetHandoff() // a producer that was sent here came before the order to take
	}
	claim, err := claimOf(head, g)
	if err != nil {
		return nil, err
	}
	life, row, err := s.inc.star.lifeOf(ctx, head.GetHolder())
	if err != nil {
		return nil, err
	}
	switch epoch.Plan(head, life) {
	case epoch.Gone:
		return nil, fmt.Errorf("open %s: %w", s.name, api.ErrUnknownStream)
	case epoch.TakeNow:
		return s.takeNow(ctx, g, head, claim)
	case epoch.AskHolder:
		return s.askHolder(ctx, g, head, row, claim)
	case epoch.ScanOwn:
		return s.scanOwn(ctx, g, head, claim)
	}
	return s.fenceAndScan(ctx, g, head, claim)
}

// takeNow takes epoch and cursor by one compare-and-set. A head that changed meanwhile is planned again.
func (s *stream) takeNow(ctx context.Context, g *gate, seen *novav1.HeadRow, claim string) (*passage, error) {
	me := s.me(g)
	me.Coverage = novav1.Coverage_COVERAGE_CLEAN
	head, err := s.mint(ctx, g, seen, func(h *novav1.HeadRow) *novav1.HeadRow { return epoch.Take(h, me, claim) })
	if err != nil {
		return nil, err
	}
	return s.passed(ctx, head, seen, 0)
}

// mint takes the next epoch by compare-and-set, on exactly the head that was planned for.
func (s *stream) mint(ctx context.Context, g *gate, seen *novav1.HeadRow, change func(*novav1.HeadRow) *novav1.HeadRow) (*novav1.HeadRow, error) {
	if g.minted != 0 { // by an earlier try of this gate
		return seen, nil
	}
	head, err := s.guard.Update(ctx, func(h *novav1.HeadRow) (*novav1.HeadRow, error) {
		if !proto.Equal(h, seen) {
			return nil, errHeadMoved
		}
		n := change(h)
		n.Mode, n.Class = s.mode, s.class
		return n, nil
	})
	switch {
	case err == nil:
		g.minted = head.GetEpoch()
	case errors.Is(err, coord.ErrUnknown):
		// It may stand. What tells is the next read: our chain under the next epoch is this very gate,
		// since an incarnation runs one gate of a stream at a time.
		if now, rerr := s.guard.Read(ctx); rerr == nil && now.GetEpoch() == seen.GetEpoch()+1 && (now.GetOpening().GetChain() == s.chain.name || now.GetHolder().GetChain() == s.chain.name && now.GetHolder().GetEpoch() == now.GetEpoch()) {
			g.minted = now.GetEpoch()
			return now, nil
		}
	}
	return head, err
}

// errSettled: there is nothing to settle any more.
var errSettled = errors.New("the stream is settled already")

// errHeadMoved: the head is not the one that was planned for; the gate plans again.
var errHeadMoved = errors.New("the head has moved on")

// lead makes the leadership out of a passed gate. mu is held.
func (s *stream) lead(g *gate, p *passage, took time.Duration) {
	s.epoch, s.claim = p.head.GetEpoch(), p.head.GetClaim()
	s.next, s.committed, s.covered = p.head.GetCovered(), p.head.GetCovered(), p.head.GetCovered()
	s.opened = time.Now()
	s.table = dedupe.Table{}
	s.table.Load(p.table)
	s.handles = map[*handle]struct{}{}
	s.grown = make(chan struct{})
	s.fresh = true
	s.inc.star.report.opened(s, g, p, took)
}

// me is this incarnation as the head names it.
func (s *stream) me(g *gate) *novav1.Holder {
	return &novav1.Holder{Star: s.inc.star.cfg.Star, Chain: s.chain.name, SinceUnixMs: time.Now().UnixMilli(), Handoff: g.handoff}
}

// lifeOf asks the registry, by a fresh read, whether the head's holder lives.
func (s *Star) lifeOf(ctx context.Context, holder *novav1.Holder) (epoch.Life, *novav1.StarRow, error) {
	if holder == nil {
		return epoch.Dead, nil, nil
	}
	row, err := s.fleet.Registry().Star(ctx, holder.GetStar())
	if errors.Is(err, coord.ErrNotFound) {
		row, err = nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read the liveness of star %s: %w", holder.GetStar(), err)
	}
	return epoch.LifeOf(holder, s.current().id, row), row, nil
}

// claimOf is the claim that the head carries after this gate. A first open brings a new one, a reopen
// must find its own (DESIGN: a reconnect never beats a newer producer), and a gate for no producer
// leaves it as it is.
func claimOf(h *novav1.HeadRow, g *gate) (string, error) {
	switch {
	case !g.fenced || g.claim == "":
		return h.GetClaim(), nil
	case g.reopen && h.GetClaim() != g.claim && h.GetClaim() != "":
		return "", &api.FencedError{Epoch: h.GetEpoch(), Why: "a newer producer has opened this fenced stream; stop producing"}
	}
	return g.claim, nil
}
