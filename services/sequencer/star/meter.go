package star

import (
	"math"
	"sync/atomic"
	"time"
)

// meter counts what one leadership costs: bytes appended and bytes read at its tail. The counters are
// written on the data path; the rates are smoothed by whoever ticks, one goroutine.
type meter struct {
	appended atomic.Int64
	hotRead  atomic.Int64

	lastAppended, lastHotRead int64
	appendRate, hotReadRate   float64
}

// smoothing is the time in which an old rate loses all but 1/e of its weight.
const smoothing = 15 * time.Second

// tick updates the rates after elapsed.
func (m *meter) tick(elapsed time.Duration) {
	a, r := m.appended.Load(), m.hotRead.Load()
	weight := 1 - math.Exp(-elapsed.Seconds()/smoothing.Seconds())
	m.appendRate += weight * (float64(a-m.lastAppended)/elapsed.Seconds() - m.appendRate)
	m.hotReadRate += weight * (float64(r-m.lastHotRead)/elapsed.Seconds() - m.hotReadRate)
	m.lastAppended, m.lastHotRead = a, r
}
