package ctl

import (
	"context"
	"time"
)

// pacer lets records pass at a rate. It keeps to the schedule from its start, so that the rate holds on
// average, but does not make up for more than a second in which the input had nothing.
type pacer struct {
	interval time.Duration // 0: no limit
	due      time.Time
}

func newPacer(perSecond float64) *pacer {
	if perSecond <= 0 {
		return &pacer{}
	}
	return &pacer{interval: time.Duration(float64(time.Second) / perSecond)}
}

// wait returns when the next record may pass, at ctx's end, or when stop is closed.
func (p *pacer) wait(ctx context.Context, stop <-chan struct{}) {
	if p.interval <= 0 {
		return
	}
	now := time.Now()
	if p.due.Before(now.Add(-time.Second)) {
		p.due = now
	}
	pause := p.due.Sub(now)
	p.due = p.due.Add(p.interval)
	if pause <= 0 {
		return
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-stop:
	}
}
