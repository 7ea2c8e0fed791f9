package flightlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	putTimeout   = 10 * time.Second
	putPauseMin  = 5 * time.Millisecond
	putPauseMost = time.Second
	// behindFlights and behindBytes bound the committed flights that wait for one copy. A copy that is
	// away for longer is brought up by repair.
	behindFlights = 128
	behindBytes   = 64 << 20
)

// errGivenUp: too many committed flights were waiting for the copy.
var errGivenUp = errors.New("given up: the copy is too far behind")

// errAway: the writer ended before the copy answered.
var errAway = errors.New("given up: the writer ended before the copy answered")

// lane is one copy's way out of the pipeline. Undecided flights go first, then those that are committed
// and that only this copy lacks; Depth puts are under way at once.
//
// An error decides nothing about a flight, so its put is repeated. It says something about the copy,
// though: the lane rests, longer each time, and tries one put at a time until one is answered.
type lane struct {
	writer  *Writer
	copy    Copy
	queue   []*boarding // in slot order
	flying  []*boarding // puts under way
	pause   time.Duration
	resting bool
}

// pump starts what may start. The writer's mu is held, as in all of lane but fly and whose.
func (l *lane) pump() {
	w := l.writer
	for len(l.queue) > 0 && w.err == nil && !l.resting {
		if len(l.flying) >= w.cfg.Depth || l.pause > 0 && len(l.flying) > 0 {
			break
		}
		f := l.take()
		l.flying = append(l.flying, f)
		w.work.Go(func() { l.fly(f) })
	}
	l.giveUp()
}

// take removes from the queue the flight to put next.
func (l *lane) take() *boarding {
	n := 0
	for i, f := range l.queue {
		if !f.decided {
			n = i
			break
		}
	}
	f := l.queue[n]
	l.queue = slices.Delete(l.queue, n, n+1)
	return f
}

// giveUp drops the oldest committed flights of a queue that is too long.
func (l *lane) giveUp() {
	flights, bytes := 0, 0
	for i := len(l.queue) - 1; i >= 0; i-- {
		f := l.queue[i]
		if !f.decided {
			continue
		}
		flights, bytes = flights+1, bytes+f.bytes
		if flights > behindFlights || bytes > behindBytes && flights > 1 {
			l.queue = slices.Delete(l.queue, i, i+1)
			l.miss(f, errGivenUp)
		}
	}
}

func (l *lane) miss(f *boarding, err error) {
	l.writer.missed = append(l.writer.missed, miss{l.copy.Name(), f.Slot, err})
	l.writer.signal()
}

// fly puts one flight on the copy, once.
func (l *lane) fly(f *boarding) {
	w := l.writer
	ctx, cancel := context.WithTimeout(w.ctx, putTimeout)
	defer cancel()
	key := SlotKey(w.cfg.Chain, f.Slot)
	began := time.Now()
	err := l.copy.Put(ctx, key, f.parts...)
	if w.cfg.Meter != nil && w.ctx.Err() == nil {
		w.cfg.Meter.Put(l.copy.Name(), f.bytes, time.Since(began), err)
	}
	won, answered := err == nil, err == nil
	if errors.Is(err, ErrExists) {
		won, answered, err = l.whose(ctx, key, f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.landed(f, won, answered, err)
}

// whose reads what stands in the slot. The flight's own nonce is a put whose answer was lost, or a
// fencer's completion, and either is success, once it is durable. Everything else is a lost vote.
func (l *lane) whose(ctx context.Context, key string, f *boarding) (won, answered bool, err error) {
	b, err := l.copy.GetRange(ctx, key, 0, max(flightFixed, maxPoison+1))
	if err != nil {
		return false, false, err
	}
	if nonceOf(b) == f.Nonce {
		if err := l.copy.Confirm(ctx, key); err != nil {
			return false, false, err
		}
		return true, true, nil
	}
	if p, err := DecodePoison(b); err == nil {
		return false, true, fmt.Errorf("%s holds a poison of %q", l.copy.Name(), p.Fencer)
	}
	return false, true, fmt.Errorf("%s holds an object that this writer did not put", l.copy.Name())
}

// landed takes the outcome of one put.
func (l *lane) landed(f *boarding, won, answered bool, err error) {
	w := l.writer
	l.flying = slices.DeleteFunc(l.flying, func(g *boarding) bool { return g == f })
	if w.err != nil {
		w.signal()
		return
	}
	if !answered {
		l.enqueue(f)
		l.rest(err)
		return
	}
	if l.pause > 0 {
		w.cfg.Log.Info("the copy answers again", "copy", l.copy.Name(), "chain", w.cfg.Chain)
		l.pause = 0
	}
	wasDecided := f.decided
	w.count(f, won, err)
	if !won && wasDecided {
		l.miss(f, err)
	}
	l.pump()
	w.signal()
}

// enqueue puts a flight back in its place.
func (l *lane) enqueue(f *boarding) {
	i := 0
	for i < len(l.queue) && l.queue[i].Slot < f.Slot {
		i++
	}
	l.queue = slices.Insert(l.queue, i, f)
}

// rest stops the lane for a while after a put that was not answered.
func (l *lane) rest(err error) {
	w := l.writer
	if l.pause == 0 {
		w.cfg.Log.Warn("a put was not answered; repeating it", "copy", l.copy.Name(), "chain", w.cfg.Chain, "err", err)
	}
	l.pause = min(max(2*l.pause, putPauseMin), putPauseMost)
	l.giveUp()
	if l.resting {
		return
	}
	l.resting = true
	timer := time.NewTimer(l.pause)
	w.work.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.ctx.Done():
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		l.resting = false
		l.pump()
	})
}

// abandonLanes reports what the copies still lack when the writer closes.
func (w *Writer) abandonLanes() {
	for _, l := range w.lanes {
		for _, f := range slices.Concat(l.queue, l.flying) {
			l.miss(f, errAway)
		}
		l.queue = nil
	}
}
