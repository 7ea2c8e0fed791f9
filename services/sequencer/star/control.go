package star

import (
	"cmp"
	"context"
	"slices"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/epoch"
)

// Leaderships lists what this star leads, hottest first (novav1.StarServer).
func (s *Star) Leaderships(_ context.Context, r *novav1.LeadershipsRequest) (*novav1.LeadershipsResponse, error) {
	out := &novav1.LeadershipsResponse{}
	for _, st := range s.current().all() {
		if info := st.info(); info != nil {
			out.Leaderships = append(out.Leaderships, info)
		}
	}
	out.Total = uint64(len(out.Leaderships))
	slices.SortFunc(out.Leaderships, func(a, b *novav1.LeadershipInfo) int {
		return cmp.Or(cmp.Compare(load(b), load(a)), cmp.Compare(a.GetId(), b.GetId()))
	})
	if top := cmp.Or(int(r.GetTop()), 100); len(out.Leaderships) > top {
		out.Leaderships = out.Leaderships[:top]
	}
	return out, nil
}

func load(l *novav1.LeadershipInfo) float64 {
	return l.GetAppendBytesPerSecond() + l.GetHotReadBytesPerSecond()
}

// info describes the leadership, or is nil where none is.
func (s *stream) info() *novav1.LeadershipInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == 0 || s.forgotten {
		return nil
	}
	return &novav1.LeadershipInfo{
		Id: s.id, Name: s.name, Epoch: s.epoch, Next: s.next, Covered: s.covered, Handles: uint32(len(s.handles)),
		AppendBytesPerSecond: s.meter.appendRate, HotReadBytesPerSecond: s.meter.hotReadRate,
		State: s.state.Phase.String(), Class: s.class,
	}
}

// Drop ends the leadership of a stream whose head says that it was deleted; its producers and readers
// hear NOT_FOUND (novav1.StarServer).
func (s *Star) Drop(ctx context.Context, r *novav1.DropRequest) (*novav1.DropResponse, error) {
	head, err := s.readHead(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	if st := s.current().find(r.GetId()); st != nil && head.GetDeleted() {
		st.depose(epoch.ErrDeleted)
		st.chain.covered(st.id, head)
	}
	return &novav1.DropResponse{}, nil
}
