package star

import (
	"context"
	"math"
	"time"

	"nova.internal/libs/api/novav1"
)

// statsLoop measures what this star carries and publishes it: totals of a fixed size, never a map of
// streams, and only when something changed by more than a twentieth.
func (s *Star) statsLoop(ctx context.Context) {
	last := time.Now()
	var published *novav1.StatsRow
	for sleep(ctx, s.cfg.StatsInterval) {
		now := time.Now()
		row := s.measure(now.Sub(last))
		last = now
		s.closeStalePeers()
		if published != nil && !changed(published, row) {
			continue
		}
		if err := s.registration.Load().Stats(ctx, row); err != nil {
			s.log.Debug("stats not published", "err", err)
			continue
		}
		published = row
	}
}

func (s *Star) measure(elapsed time.Duration) *novav1.StatsRow {
	row := &novav1.StatsRow{Star: s.cfg.Star, AtUnixMs: time.Now().UnixMilli(), Sessions: s.sessions.open.Load()}
	for _, st := range s.current().all() {
		st.mu.Lock()
		if st.state.Phase.Leads() {
			row.Leaders++
			st.meter.tick(elapsed)
			row.AppendBytesPerSecond += st.meter.appendRate
			row.HotReadBytesPerSecond += st.meter.hotReadRate
		}
		st.mu.Unlock()
	}
	for _, v := range []*float64{&row.AppendBytesPerSecond, &row.HotReadBytesPerSecond} {
		if *v < 1 { // what fades out is nothing, and need not be published again and again
			*v = 0
		}
	}
	s.report.measured(row)
	return row
}

// changed says whether b differs from a by more than a twentieth in anything.
func changed(a, b *novav1.StatsRow) bool {
	differs := func(x, y float64) bool { return math.Abs(x-y) > 0.05*math.Max(math.Abs(x), math.Abs(y)) }
	return a.GetStranded() != b.GetStranded() || a.GetDrained() != b.GetDrained() ||
		differs(float64(a.GetLeaders()), float64(b.GetLeaders())) ||
		differs(float64(a.GetSessions()), float64(b.GetSessions())) ||
		differs(a.GetAppendBytesPerSecond(), b.GetAppendBytesPerSecond()) ||
		differs(a.GetHotReadBytesPerSecond(), b.GetHotReadBytesPerSecond()) ||
		differs(a.GetSaturation(), b.GetSaturation())
}

// closeStalePeers drops the connections to stars that have left.
func (s *Star) closeStalePeers() {
	addresses := map[string]bool{s.cfg.Placer: true}
	for _, m := range s.fleet.Registry().Snapshot().Stars {
		addresses[m.Star.GetAddress()] = true
	}
	s.peers.keep(addresses)
}
