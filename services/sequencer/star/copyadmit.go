package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/flightlog"
)

// knownEvery is how often a star reads which stores the fleet knows its copies as.
const knownEvery = 2 * time.Second

// watchCopies keeps up with admissions: from the moment a copy's row names another store, the one before
// is refused.
func (s *Star) watchCopies(ctx context.Context) {
	for sleep(ctx, knownEvery) {
		for class, all := range s.known {
			for i, known := range all {
				row := &novav1.CopyRow{}
				if _, err := s.fleet.Rows().Get(ctx, coord.CopyKey(class, i), row); err == nil && row.GetIdentity() != known.ID() {
					s.log.Info("the fleet knows a copy as another store now", "class", flightlog.ClassName(class), "copy", i, "identity", row.GetIdentity())
					known.Set(row.GetIdentity())
				}
			}
		}
	}
}

// AdmitCopy makes a blank store one of its class's copies (novav1.StarServer).
//
//	enough others answer ─▶ each chain: ended if it is dead, else every walk under way voided; filled
//	─▶ the copy's row names a new identity ─▶ the store gets it ─▶ the stars let it vote
//
// A fencer that counted the lost store's answers must not seal by them once the new one is filled as
// though they had never been given. Rewriting the row of a chain that stays open makes that fencer's
// compare-and-set fail, and none that begins later hears this store before it has its identity. A crash
// leaves a store that takes no part, and another try goes on where this one stopped.
func (s *Star) AdmitCopy(r *novav1.AdmitCopyRequest, call grpc.ServerStreamingServer[novav1.AdmitCopyResponse]) error {
	a, err := s.newAdmit(call.Context(), r.GetClass(), int(r.GetIndex()))
	if err != nil {
		return err
	}
	role, err := s.fleet.Roles().Claim(call.Context(), fmt.Sprintf("admit/%s/%d", flightlog.ClassName(a.class), a.index))
	if errors.Is(err, coord.ErrHeld) {
		return &api.RefusedError{Why: "another star is at it: this copy is being admitted"}
	}
	if err != nil {
		return refusal(err, "admit a copy")
	}
	defer func() { _ = role.Release(context.WithoutCancel(call.Context())) }() // else it ends with the session
	return refusal(a.run(call.Context(), call.Send), "admit "+a.to.Name())
}

// admit is one admission.
type admit struct {
	star  *Star
	class novav1.Class
	index int
	to    flightlog.Copy // the blank store
	from  []flightlog.Copy
	row   *novav1.CopyRow
	at    coord.Version
}

// newAdmit checks that the store may be admitted and that enough others are there to fill it from.
func (s *Star) newAdmit(ctx context.Context, class novav1.Class, index int) (*admit, error) {
	urls := map[novav1.Class][]string{novav1.Class_CLASS_STANDARD: s.cfg.Standard, novav1.Class_CLASS_EXPRESS: s.cfg.Express}[class]
	if index < 0 || index >= len(urls) {
		return nil, &api.FieldError{Field: "copy", Why: fmt.Sprintf("class %s has %d copies, counted from 0", flightlog.ClassName(class), len(urls))}
	}
	a := &admit{star: s, class: class, index: index, row: &novav1.CopyRow{}}
	var err error
	if a.at, err = s.fleet.Rows().Get(ctx, coord.CopyKey(class, index), a.row); err != nil {
		return nil, refusal(err, "read which store the copy is")
	}
	if a.to, err = flightlog.OpenCopy(urls[index]); err != nil {
		return nil, &api.RefusedError{Why: "the store cannot be opened: " + err.Error()}
	}
	switch id, err := flightlog.Identify(ctx, a.to); {
	case err != nil:
		return nil, &api.RefusedError{Why: "the store does not say which one it is: " + err.Error()}
	case id == a.row.GetIdentity():
		return nil, &api.RefusedError{Why: "copy " + a.to.Name() + " is the store that the fleet knows: there is nothing to admit"}
	case id != "":
		return nil, &api.RefusedError{Why: "copy " + a.to.Name() + " holds the identity " + id + ", so it is another copy's store or an older one; put a blank one in its place"}
	}
	if err := flightlog.Probe(ctx, a.to); err != nil {
		return nil, &api.RefusedError{Why: err.Error()}
	}
	set := s.copies[class]
	for i, h := range set.Health(ctx) {
		if i != index && h.Err == nil {
			a.from = append(a.from, set.List[i])
		}
	}
	// Whatever was acknowledged with the lost store's vote lies on quorum-1 of the others, or more. Of any
	// quorum of them one at least holds it.
	if len(a.from) < set.Quorum() {
		return nil, &api.RefusedError{Why: fmt.Sprintf("%d other copies of class %s answer and %d are needed to know what this one must hold", len(a.from), flightlog.ClassName(class), set.Quorum())}
	}
	return a, nil
}

// run fills the store and gives it its identity.
func (a *admit) run(ctx context.Context, tell func(*novav1.AdmitCopyResponse) error) error {
	s, began := a.star, time.Now()
	var chains []string
	err := s.fleet.Rows().Chains(ctx, func(row *novav1.ChainRow) error {
		if row.GetClass() == a.class {
			chains = append(chains, row.GetChain())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	told := &novav1.AdmitCopyResponse{Copy: a.to.Name(), Of: uint64(len(chains))}
	for _, chain := range chains {
		end, err := a.settleEnd(ctx, chain)
		if err != nil {
			return err
		}
		filled, err := flightlog.FillChain(ctx, a.from, a.to, chain, end, s.cfg.Star)
		told.Objects, told.Bytes = told.Objects+filled.Objects, told.Bytes+filled.Bytes
		if err != nil {
			return err
		}
		told.Chains++
		if err := tell(told); err != nil {
			return err
		}
	}
	id := ulid.Make().String()
	row := &novav1.CopyRow{Identity: id, AdmittedUnixMs: time.Now().UnixMilli()}
	if _, err := s.fleet.Rows().Put(ctx, coord.CopyKey(a.class, a.index), row, a.at); err != nil {
		return fmt.Errorf("name the store in the copy's row: %w", err)
	}
	switch stands, err := flightlog.FormatAs(ctx, a.to, id); {
	case err != nil:
		return fmt.Errorf("the store is filled and has no identity yet; admit it again: %w", err)
	case stands != id:
		return fmt.Errorf("the store was given the identity %s by somebody else meanwhile", stands)
	}
	s.known[a.class][a.index].Set(id)
	s.report.copyAdmitted(a, id, told, time.Since(began))
	told.Identity = id
	return tell(told)
}

// settleEnd is where the chain ends, after ending it where that is due and possible. A chain that stays
// open, because its writer lives or its votes are split for want of this very store, has its row written
// anew.
func (a *admit) settleEnd(ctx context.Context, chain string) (flightlog.Ending, error) {
	s, row := a.star, &novav1.ChainRow{}
	for {
		version, err := s.fleet.Rows().Get(ctx, coord.ChainKey(chain), row)
		if err != nil {
			return flightlog.Ending{}, fmt.Errorf("read the row of chain %s: %w", chain, err)
		}
		if row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
			return flightlog.Ending{Ended: true, Seal: row.GetSeal()}, nil
		}
		life, _, err := s.lifeOf(ctx, &novav1.Holder{Star: starOf(chain), Chain: chain})
		if err != nil {
			return flightlog.Ending{}, err
		}
		if life == epoch.Dead {
			sealed, err := s.graves.seal(ctx, chain, a.class)
			if err == nil {
				return flightlog.Ending{Ended: true, Seal: sealed.GetSeal()}, nil
			}
			if !errors.Is(err, epoch.ErrUndecided) {
				return flightlog.Ending{}, err
			}
		}
		if _, err := s.fleet.Rows().Put(ctx, coord.ChainKey(chain), row, version); err == nil {
			return flightlog.Ending{}, nil
		} else if !errors.Is(err, coord.ErrConflict) {
			return flightlog.Ending{}, fmt.Errorf("write the row of chain %s: %w", chain, err)
		}
	}
}
