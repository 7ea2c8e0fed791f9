package epoch

import (
	"strings"

	"nova.internal/libs/api/novav1"
)

// Life is what a fresh read of the holder's liveness row says.
type Life int

const (
	Dead    Life = iota // no row, or one of another incarnation
	Living              // the holder's very incarnation has a row
	Oneself             // the holder is the asking incarnation
)

// Step is what a gate does next.
type Step int

const (
	// Gone: the stream was deleted; the gate ends.
	Gone Step = iota
	// TakeNow: there is a mark, or nobody ever led; one compare-and-set takes epoch and cursor.
	TakeNow
	// AskHolder: the holder lives. It is asked before its head is touched (alive defers): it finishes,
	// serves on, or hands over its refs as evidence.
	AskHolder
	// ScanOwn: the holder is this incarnation; its own flight index is the evidence.
	ScanOwn
	// FenceAndScan: the holder is gone; its chain is sealed, then read.
	FenceAndScan
)

// Plan is the open gate's coverage decision: what evidence the head demands before a new sequencer may
// start. A missing mark always costs a scan of some kind; a mark never does.
//
// Only the last holder can own records that no segment covers: an opener that never passed its gate
// never served. So an abandoned `opening` entry needs no evidence, whoever left it.
func Plan(h *novav1.HeadRow, holder Life) Step {
	switch {
	case h.GetDeleted():
		return Gone
	case h.GetHolder() == nil, CleanlyReleased(h):
		return TakeNow
	case holder == Oneself:
		return ScanOwn
	case holder == Living:
		return AskHolder
	}
	return FenceAndScan
}

// Incarnation is the incarnation part of a chain's name, STAR/INCARNATION/CLASS.
func Incarnation(chain string) string {
	if parts := strings.Split(chain, "/"); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

// LifeOf compares the holder with the asking incarnation and with the holder's liveness row (nil when it
// has none).
func LifeOf(holder *novav1.Holder, me string, row *novav1.StarRow) Life {
	switch inc := Incarnation(holder.GetChain()); {
	case inc == me:
		return Oneself
	case row.GetStar() == holder.GetStar() && row.GetIncarnation() == inc && inc != "":
		return Living
	}
	return Dead
}
