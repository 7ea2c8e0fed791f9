package star

import (
	"context"
	"fmt"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/epoch"
)

// askHolder asks the living holder before its head is touched (alive defers). Three answers end in a
// decision: it has finished, so the head is planned again; it serves on; or it leads nothing there and
// hands over its refs, with which the epoch is taken and the gate passed.
//
// A holder that lives and does not answer is waited for: only its own word, or the seal of its chain
// once its session has ended, is evidence.
func (s *stream) askHolder(ctx context.Context, g *gate, head *novav1.HeadRow, row *novav1.StarRow, claim string) (*passage, error) {
	star, holder := s.inc.star, head.GetHolder()
	peer, err := star.peers.star(row.GetAddress())
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, finishWait)
	defer cancel()
	answer, err := peer.Release(call, &novav1.ReleaseRequest{Id: s.id, Epoch: holder.GetEpoch(), Star: star.cfg.Star})
	if err != nil {
		err = api.FromError(err)
		if !retryable(err) {
			return nil, err
		}
		return nil, unavailable(novav1.Unavailable_REASON_HOLDER_UNREACHABLE, fmt.Sprintf("star %s holds the stream's last epoch, lives and does not answer: %v", holder.GetStar(), err))
	}
	if answer.GetFinished() {
		return nil, errHeadMoved
	}
	evidence := answer.GetEvidence()
	if evidence == nil || evidence.GetChain() != holder.GetChain() {
		return nil, fmt.Errorf("star %s answered with evidence of chain %q, the head names %q", holder.GetStar(), evidence.GetChain(), holder.GetChain())
	}
	found := make([]epoch.Batch, 0, len(evidence.GetBatches()))
	for _, b := range evidence.GetBatches() {
		found = append(found, epoch.Batch{
			Chain: evidence.GetChain(), Slot: b.GetSlot(), Offset: b.GetOffset(), Length: b.GetLength(),
			Base: b.GetBase(), Count: b.GetCount(), CRC: b.GetCrc32C(), Epoch: b.GetEpoch(), Producer: b.GetProducer(), Number: b.GetNumber(),
		})
	}
	me := s.me(g)
	me.Coverage = novav1.Coverage_COVERAGE_EVIDENCE
	head, err = s.mint(ctx, g, head, func(h *novav1.HeadRow) *novav1.HeadRow { return epoch.Begin(h, me, claim) })
	if err != nil {
		return nil, err
	}
	return s.recover(ctx, me, head, found)
}
