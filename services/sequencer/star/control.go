package star

import (
	"cmp"
	"context"
	"slices"

	"nova.internal/libs/api/novav1"
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
