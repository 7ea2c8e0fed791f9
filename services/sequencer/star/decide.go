package star

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/events"
	"nova.internal/libs/flightlog"
)

// DecideChain ends a dead chain on a person's word, or tells what that would do (novav1.StarServer).
func (s *Star) DecideChain(ctx context.Context, r *novav1.DecideChainRequest) (*novav1.DecideChainResponse, error) {
	chain := r.GetChain()
	_, _, class, err := flightlog.ParseChain(chain)
	if err != nil {
		return nil, &api.FieldError{Field: "chain", Why: err.Error()}
	}
	switch life, _, err := s.lifeOf(ctx, &novav1.Holder{Star: starOf(chain), Chain: chain}); {
	case err != nil:
		return nil, refusal(err, "ask whether the chain's star lives")
	case life != epoch.Dead:
		return nil, &api.RefusedError{Why: "chain " + chain + " belongs to a living incarnation of star " + starOf(chain) + ", which decides its slots itself; stop that star first"}
	}
	if r.GetApply() {
		role, err := s.fleet.Roles().Claim(ctx, "fence/"+chain)
		if errors.Is(err, coord.ErrHeld) {
			return nil, unavailable(novav1.Unavailable_REASON_UNSPECIFIED, "another star is walking chain "+chain+" now")
		}
		if err != nil {
			return nil, refusal(err, "claim the chain's fence")
		}
		defer func() { _ = role.Release(context.WithoutCancel(ctx)) }() // else it ends with the session
	}
	grave := flightlog.NewGraveyard(s.copies[class], chain, s.cfg.Star)
	d, err := epoch.Decide(ctx, s.fleet.Rows(), chain, fencing{grave}, epoch.Word{Apply: r.GetApply(), AcceptLoss: r.GetAcceptLoss()})
	switch {
	case errors.Is(err, coord.ErrNotFound):
		return nil, &api.RefusedError{Why: "there is no chain " + chain}
	case err != nil && !errors.Is(err, epoch.ErrOver):
		return nil, refusal(err, "decide chain "+chain)
	}
	if d.Applied {
		for _, slot := range d.Counted() { // below the seal now, so decided: what can be mended is
			_, _ = s.repairers[class].Mend(ctx, chain, slot) // told to the report
		}
		s.report.chainDecided(events.Decided{Chain: chain, Seal: d.Seal, Counted: d.Counted(), LossAccepted: d.End() == epoch.RuleEnds})
	}
	return decision(ctx, d, grave), nil
}

// decision is d for people, with what each copy holds of the slots that were not plain.
func decision(ctx context.Context, d epoch.Decision, grave *flightlog.Graveyard) *novav1.DecideChainResponse {
	out := &novav1.DecideChainResponse{
		State: strings.ToLower(strings.TrimPrefix(d.Before.GetState().String(), "CHAIN_STATE_")),
		Floor: d.Before.GetFloor(), Seal: d.Seal, Applied: d.Applied, Loses: d.End() == epoch.RuleEnds,
	}
	for _, ruled := range d.Rulings {
		row := &novav1.SlotRuling{Slot: ruled.Slot, Ruling: string(ruled.Ruling)}
		for _, a := range grave.Ask(ctx, ruled.Slot) {
			answer := &novav1.SlotAnswer{Copy: a.Copy, Holds: string(a.Holds)}
			if a.Err != nil {
				answer.Error = a.Err.Error()
			}
			row.Answers = append(row.Answers, answer)
		}
		out.Rulings = append(out.Rulings, row)
	}
	if d.End() == epoch.RuleStuck {
		out.Stuck = fmt.Sprintf("too few copies answer to know whether slot %d was acknowledged; bring one back, or accept that what lies from there on may be lost", d.Seal)
	}
	return out
}
