package epoch

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// Whole: a flight in memory has no damage.
func (m *memSlots) Whole(_ context.Context, slot uint64) bool {
	for i, c := range m.copies {
		if i != m.away && c[slot] == flightIn {
			return true
		}
	}
	return false
}

func TestRule(t *testing.T) {
	v := func(flight, poison, empty, away int) Votes {
		return Votes{Flight: flight, Poison: poison, Empty: empty, Away: away, Quorum: 2}
	}
	tests := map[string]struct {
		votes       Votes
		whole, loss bool
		want        Ruling
	}{
		"a quorum":                         {v(2, 0, 0, 1), true, false, RulePlain},
		"room to complete":                 {v(1, 0, 1, 1), true, false, RuleComplete},
		"split, and the flight is whole":   {v(1, 1, 0, 1), true, false, RuleCounts},
		"split, the word takes no more":    {v(1, 1, 0, 1), true, true, RuleCounts},
		"alone, and whole":                 {v(1, 0, 0, 2), true, false, RuleCounts},
		"split, and the flight is damaged": {v(1, 1, 0, 1), false, false, RuleStuck},
		"damaged, and loss is accepted":    {v(1, 1, 0, 1), false, true, RuleEnds},
		"too few to know":                  {v(0, 0, 1, 2), false, false, RuleStuck},
		"too few, and loss is accepted":    {v(0, 0, 1, 2), false, true, RuleEnds},
		"a poison alone":                   {v(0, 1, 0, 2), false, true, RuleEnds},
		"nothing on a quorum":              {v(0, 0, 2, 1), false, false, RulePoison},
		"poison on a quorum":               {v(0, 2, 0, 1), false, true, RuleTail},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Rule(tc.votes, tc.whole, tc.loss); got != tc.want {
				t.Errorf("ruling %s, want %s", got, tc.want)
			}
		})
	}
}

// A dead chain of any shape, one copy away: without accepting loss, a decision never ends the chain at or
// below a slot that may have been acknowledged; asked without applying it writes nothing and tells what
// applying then does.
func TestADecisionNeverDropsWhatMayBeAcknowledged(t *testing.T) {
	const slots = 6
	stuck, counted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &memSlots{away: rapid.IntRange(-1, 2).Draw(t, "away"), flaky: func() bool { return false }, between: func() {}}
		for i := range m.copies {
			m.copies[i] = make([]object, slots+2)
		}
		acked := rapid.IntRange(0, slots-1).Draw(t, "acknowledged")
		for slot := range slots {
			for i := range m.copies {
				m.copies[i][slot] = object(rapid.IntRange(0, 2).Draw(t, "object"))
			}
			if slot < acked { // on a quorum, and the third copy shows anything
				third := rapid.IntRange(0, 2).Draw(t, "third")
				m.copies[(third+1)%3][slot], m.copies[(third+2)%3][slot] = flightIn, flightIn
			}
		}
		rows := newMemRows()
		key := coord.ChainKey("a/i/express")
		if _, err := rows.Put(t.Context(), key, &novav1.ChainRow{Chain: "a/i/express"}, coord.Absent); err != nil {
			t.Fatal(err)
		}
		if err := setOpen(t.Context(), rows, key); err != nil {
			t.Fatal(err)
		}
		before := m.copies
		for i := range before {
			before[i] = append([]object(nil), m.copies[i]...)
		}
		dry, err := Decide(t.Context(), rows, "a/i/express", m, Word{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, m.copies); diff != "" {
			t.Fatalf("asking changed the copies (-before +after):\n%s", diff)
		}
		wet, err := Decide(t.Context(), rows, "a/i/express", m, Word{Apply: true})
		if err != nil {
			t.Fatal(err)
		}
		if dry.Seal != wet.Seal || (dry.End() == RuleStuck) != (wet.End() == RuleStuck) {
			t.Fatalf("asked it told %+v, and did %+v", dry, wet)
		}
		counted += len(wet.Counted())
		row := &novav1.ChainRow{}
		if _, err := rows.Get(t.Context(), key, row); err != nil {
			t.Fatal(err)
		}
		if wet.End() == RuleStuck {
			stuck++
			if row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN || wet.Applied {
				t.Fatalf("stuck, and the row is %v", row)
			}
			return
		}
		if row.GetState() != novav1.ChainState_CHAIN_STATE_SEALED || row.GetSeal() != wet.Seal || row.GetSeal() < uint64(acked) {
			t.Fatalf("%d slots were acknowledged, the row is %v, the decision %+v", acked, row, wet)
		}
		for slot := range row.GetSeal() {
			if !m.Whole(t.Context(), slot) {
				t.Fatalf("slot %d below the seal %d is on no copy that answers", slot, row.GetSeal())
			}
		}
		if m.count(int(row.GetSeal()), poisonIn) < 2 {
			t.Fatalf("the seal's slot holds %d poisons", m.count(int(row.GetSeal()), poisonIn))
		}
		if _, err := Decide(t.Context(), rows, "a/i/express", m, Word{Apply: true}); !errors.Is(err, ErrOver) {
			t.Fatalf("again: %v, want ErrOver", err)
		}
	})
	if counted == 0 {
		t.Error("no split vote was tried")
	}
	t.Logf("%d split slots counted, %d chains stuck", counted, stuck)
}

// setOpen marks the chain's row open.
func setOpen(ctx context.Context, rows *memRows, key coord.Key) error {
	row := &novav1.ChainRow{}
	version, err := rows.Get(ctx, key, row)
	if err != nil {
		return err
	}
	row.State = novav1.ChainState_CHAIN_STATE_OPEN
	_, err = rows.Put(ctx, key, row, version)
	return err
}

func TestTheWordMayAcceptALossThatWaitingCannotRuleOut(t *testing.T) {
	m := &memSlots{away: -1, flaky: func() bool { return false }, between: func() {}}
	for i := range m.copies {
		m.copies[i] = make([]object, 4)
		m.copies[i][0] = flightIn
	}
	twoAway := &twoAway{m}
	rows := newMemRows()
	key := coord.ChainKey("a/i/express")
	if _, err := rows.Put(t.Context(), key, &novav1.ChainRow{Chain: "a/i/express", State: novav1.ChainState_CHAIN_STATE_OPEN}, coord.Absent); err != nil {
		t.Fatal(err)
	}
	d, err := Decide(t.Context(), rows, "a/i/express", twoAway, Word{Apply: true})
	if err != nil || d.End() != RuleStuck || d.Applied || d.Seal != 1 {
		t.Fatalf("without the word: %+v, %v; want it stuck at slot 1", d, err)
	}
	d, err = Decide(t.Context(), rows, "a/i/express", twoAway, Word{Apply: true, AcceptLoss: true})
	if err != nil || d.End() != RuleEnds || !d.Applied || d.Seal != 1 || len(d.Counted()) != 1 {
		t.Fatalf("with it: %+v, %v; want slot 0 to count and the chain to end at slot 1", d, err)
	}
	if m.copies[0][1] != poisonIn {
		t.Error("the copy that answers has no poison at the seal")
	}
}

// twoAway shows the first copy alone.
type twoAway struct{ *memSlots }

func (m *twoAway) Vote(_ context.Context, slot uint64) (Votes, error) {
	v := Votes{Away: 2, Quorum: 2}
	switch m.copies[0][slot] {
	case emptySlot:
		v.Empty = 1
	case flightIn:
		v.Flight = 1
	default:
		v.Poison = 1
	}
	return v, nil
}
