package epoch

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

type object byte

const (
	emptySlot object = iota
	flightIn
	poisonIn
)

// memSlots is three copies of a chain; one of them may be away. Its puts are create-if-absent, and fail
// now and then.
type memSlots struct {
	copies [3][]object
	away   int // -1: none
	flaky  func() bool
	// between runs before each call: what the writer and others do meanwhile.
	between func()
}

func (m *memSlots) Committed(_ context.Context, floor uint64) (uint64, error) { return floor, nil }

func (m *memSlots) Vote(_ context.Context, slot uint64) (Votes, error) {
	m.between()
	v := Votes{Quorum: 2}
	for i, c := range m.copies {
		switch {
		case i == m.away:
			v.Away++
		case c[slot] == emptySlot:
			v.Empty++
		case c[slot] == flightIn:
			v.Flight++
		default:
			v.Poison++
		}
	}
	return v, nil
}

func (m *memSlots) put(slot uint64, o object) {
	for i := range m.copies {
		m.between()
		if i != m.away && m.copies[i][slot] == emptySlot && !m.flaky() {
			m.copies[i][slot] = o
		}
	}
}

func (m *memSlots) Complete(_ context.Context, slot uint64) error { m.put(slot, flightIn); return nil }
func (m *memSlots) Poison(_ context.Context, slot uint64) error   { m.put(slot, poisonIn); return nil }

func (m *memSlots) count(slot int, o object) int {
	n := 0
	for _, c := range m.copies {
		if c[slot] == o {
			n++
		}
	}
	return n
}

// TestTheSealIsBehindEverythingAcknowledged lets a writer go on while its chain is fenced by two fencers,
// one of which stops anywhere. Whatever they do, no slot at or above the seal is ever acknowledged, and
// every slot below it stands on a quorum.
func TestTheSealIsBehindEverythingAcknowledged(t *testing.T) {
	const slots = 8
	rapid.Check(t, func(t *rapid.T) {
		rows := newMemRows()
		m := &memSlots{away: rapid.IntRange(-1, 2).Draw(t, "away"), flaky: func() bool { return rapid.IntRange(0, 9).Draw(t, "flaky") == 0 }}
		for i := range m.copies {
			m.copies[i] = make([]object, slots+2)
		}
		key := coord.ChainKey("one/inc/express")
		row := &novav1.ChainRow{Chain: "one/inc/express", State: novav1.ChainState_CHAIN_STATE_OPEN}
		version, err := rows.Put(t.Context(), key, row, coord.Absent)
		if err != nil {
			t.Fatal(err)
		}
		acked, next, dead := 0, 0, false
		// The writer: puts its next slot on a copy, acknowledges at two, moves the floor now and then. It
		// reaches the copy that is away for the fencers as well: the worst case.
		writer := func() {
			if dead || next >= slots {
				return
			}
			i := rapid.IntRange(0, 2).Draw(t, "copy")
			if m.copies[i][next] == emptySlot {
				m.copies[i][next] = flightIn
			}
			switch {
			case m.count(next, flightIn) >= 2:
				next++
				acked = next
				if rapid.Bool().Draw(t, "floor") {
					row.Floor = uint64(acked)
					if version, err = rows.Put(t.Context(), key, row, version); err != nil {
						dead = true
					} else if rapid.Bool().Draw(t, "collect") { // what is below the floor may be deleted
						for i := range m.copies {
							clear(m.copies[i][:row.Floor])
						}
					}
				}
			case m.count(next, poisonIn) >= 2:
				dead = true
			}
		}
		m.between = func() {
			for range rapid.IntRange(0, 2).Draw(t, "writer steps") {
				writer()
			}
		}
		var sealed *novav1.ChainRow
		for sealed == nil {
			ctx, cancel := context.WithCancel(t.Context())
			steps := rapid.IntRange(1, 40).Draw(t, "fencer steps")
			inner := m.between
			m.between = func() {
				if steps--; steps == 0 {
					cancel() // this fencer stops here, and another comes
				}
				inner()
			}
			row, err := Fence(ctx, rows, "one/inc/express", novav1.Class_CLASS_EXPRESS, m)
			m.between = inner
			cancel()
			switch {
			case err == nil:
				sealed = row
			case errors.Is(err, ErrUndecided) && m.away >= 0:
				m.away = -1 // it waits; the copy comes back
			case errors.Is(err, ErrUndecided), errors.Is(err, context.Canceled):
			default:
				t.Fatal(err)
			}
		}
		for range 40 { // the writer has not heard of it
			writer()
		}
		if uint64(acked) > sealed.GetSeal() {
			t.Fatalf("slot %d was acknowledged, the seal is at %d", acked-1, sealed.GetSeal())
		}
		for slot := int(sealed.GetFloor()); slot < int(sealed.GetSeal()); slot++ {
			if m.count(slot, flightIn) < 2 {
				t.Fatalf("slot %d below the seal %d stands on %d copies", slot, sealed.GetSeal(), m.count(slot, flightIn))
			}
		}
		again, err := Fence(t.Context(), rows, "one/inc/express", novav1.Class_CLASS_EXPRESS, m)
		if err != nil || again.GetSeal() != sealed.GetSeal() {
			t.Fatalf("a second fence = %v, %v; the seal is at %d", again, err, sealed.GetSeal())
		}
	})
}

func TestAChainWithoutARowIsEmpty(t *testing.T) {
	row, err := Fence(t.Context(), newMemRows(), "one/inc/standard", novav1.Class_CLASS_STANDARD, &memSlots{})
	if err != nil || row.GetSeal() != 0 || row.GetState() != novav1.ChainState_CHAIN_STATE_SEALED {
		t.Errorf("Fence = %v, %v", row, err)
	}
}
