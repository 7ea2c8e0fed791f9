package star

import (
	"context"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/flightlog"
)

// Storage tells which store each copy is, and counts what it holds of the slots that are decided
// (novav1.StarServer).
func (s *Star) Storage(ctx context.Context, r *novav1.StorageRequest) (*novav1.StorageResponse, error) {
	out := &novav1.StorageResponse{Star: s.cfg.Star}
	for _, class := range []novav1.Class{novav1.Class_CLASS_STANDARD, novav1.Class_CLASS_EXPRESS} {
		all, err := s.copiesOf(ctx, class, r.GetVerify())
		if err != nil {
			return nil, refusal(err, "look at the copies")
		}
		out.Copies = append(out.Copies, all...)
	}
	return out, nil
}

func (s *Star) copiesOf(ctx context.Context, class novav1.Class, verify bool) ([]*novav1.CopyStatus, error) {
	set := s.copies[class]
	all := make([]*novav1.CopyStatus, len(set.List))
	for i, h := range set.Health(ctx) {
		row := &novav1.CopyRow{}
		if _, err := s.fleet.Rows().Get(ctx, coord.CopyKey(class, i), row); err != nil {
			return nil, err
		}
		all[i] = &novav1.CopyStatus{Class: class, Index: uint32(i), Copy: h.Copy, Expected: row.GetIdentity(), Found: h.Identity, Counted: true}
		if h.Err != nil {
			all[i].Fault = h.Err.Error()
		}
	}
	err := s.fleet.Rows().Chains(ctx, func(row *novav1.ChainRow) error {
		if row.GetClass() != class {
			return nil
		}
		for i, c := range flightlog.Take(ctx, set, row.GetChain(), s.decidedBelow(row), verify) {
			all[i].Flights, all[i].Missing, all[i].Damaged = all[i].Flights+c.Flights, all[i].Missing+c.Missing, all[i].Damaged+c.Damaged
			all[i].Counted = all[i].Counted && c.Err == nil
		}
		return ctx.Err()
	})
	return all, err
}
