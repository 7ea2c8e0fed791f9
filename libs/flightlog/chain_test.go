package flightlog_test

import (
	"testing"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
)

func TestAChainsNameIsTakenApartAsItWasMade(t *testing.T) {
	for _, class := range []novav1.Class{novav1.Class_CLASS_STANDARD, novav1.Class_CLASS_EXPRESS} {
		name := flightlog.ChainName("star-1", "01JZZZZZZZZZZZZZZZZZZZZZZZ", class)
		star, incarnation, got, err := flightlog.ParseChain(name)
		if err != nil || star != "star-1" || incarnation != "01JZZZZZZZZZZZZZZZZZZZZZZZ" || got != class {
			t.Errorf("ParseChain(%q) = %q, %q, %v, %v", name, star, incarnation, got, err)
		}
	}
	for _, name := range []string{"", "a", "a/b", "a/b/c", "/b/express", "a//express", "a/b/express/d", "a/b/", "../b/express", "a/../express"} {
		if star, incarnation, class, err := flightlog.ParseChain(name); err == nil {
			t.Errorf("ParseChain(%q) = %q, %q, %v", name, star, incarnation, class)
		}
	}
}

func TestSlotKeysSortAsTheirSlots(t *testing.T) {
	last := ""
	for _, slot := range []uint64{0, 1, 9, 10, 99, 1 << 32, 1<<64 - 1} {
		if key := flightlog.SlotKey(testChain, slot); key <= last {
			t.Errorf("the key of slot %d, %s, sorts at or below %s", slot, key, last)
		} else {
			last = key
		}
	}
}
