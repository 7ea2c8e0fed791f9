package epoch

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
)

// What an attempt to write a head can learn.
var (
	// ErrDeposed: a newer epoch stands in the head. The writer's epoch is over for good.
	ErrDeposed = errors.New("deposed: a newer epoch leads this stream")
	// ErrDeleted: the head says that the stream is gone, which deposes every leader.
	ErrDeleted = errors.New("the stream was deleted")
)

// CleanlyReleased says whether the head's last holder left a clean-release mark: evidence, by the holder
// itself, that everything it acknowledged is covered. Only the head's own entry counts, only when its
// epoch is the holder's, and only when it ends where coverage ends; a mark in a segment row alone means
// nothing, since that row may never have been published.
func CleanlyReleased(h *novav1.HeadRow) bool {
	last, holder := h.GetLast(), h.GetHolder()
	return holder != nil && last.GetCleanRelease() && last.GetEpoch() == holder.GetEpoch() && last.GetEnd() == h.GetCovered()
}

// Take is the head after a gate that needed no scan: a new epoch, held by me at once.
func Take(h *novav1.HeadRow, me *novav1.Holder, claim string) *novav1.HeadRow {
	n := proto.CloneOf(h)
	n.Epoch++
	n.Opening = nil
	n.Holder = proto.CloneOf(me)
	n.Holder.Epoch = n.Epoch
	n.Holder.Coverage = novav1.Coverage_COVERAGE_CLEAN
	n.Successor = nil
	n.Claim = claim
	return n
}

// Begin is the head after a gate's first step when a scan is needed: the epoch is taken, which voids all
// that older epochs may still write to the metastore, while the holder stays the one whose records must
// be found.
func Begin(h *novav1.HeadRow, me *novav1.Holder, claim string) *novav1.HeadRow {
	n := proto.CloneOf(h)
	n.Epoch++
	n.Opening = proto.CloneOf(me)
	n.Opening.Epoch = n.Epoch
	n.Successor = nil
	n.Claim = claim
	return n
}

// pass is the head after a gate's last step.
func pass(h *novav1.HeadRow, me *novav1.Holder) {
	h.Opening = nil
	h.Holder = proto.CloneOf(me)
	h.Holder.Epoch = h.Epoch
}
