package flightlog

import (
	"context"
	"errors"
	"time"
)

const (
	putTimeout   = 10 * time.Second
	putPauseMin  = 5 * time.Millisecond
	putPauseMost = time.Second
	// maxStragglers bounds the puts that go on after their flight was committed; a copy that is away for
	// longer is brought up by repair.
	maxStragglers = 128
)

// put writes the flight to every copy at once. mu is held.
func (w *Writer) put(f *sealedFlight) {
	for _, c := range w.cfg.Copies.List {
		w.work.Go(func() {
			won, known := w.putOn(c, f)
			w.mu.Lock()
			defer w.mu.Unlock()
			if f.decided {
				w.stragglers = max(w.stragglers-1, 0)
				w.signal()
			}
			if known {
				was := f.decided
				w.decide(f, won)
				if f.decided && !was { // the copies that have not answered yet go on in the background
					w.stragglers += len(w.cfg.Copies.List) - f.votes - f.lost
				}
			}
		})
	}
}

// putOn writes the flight to one copy until the copy has decided: it holds this very flight, or
// something else. An error decides nothing, so the put is repeated; "exists" with the flight's own nonce
// is a put whose answer was lost, or a fencer's completion, and either is success.
func (w *Writer) putOn(c Copy, f *sealedFlight) (won, known bool) {
	key := SlotKey(w.cfg.Chain, f.slot)
	for pause := putPauseMin; ; pause = min(2*pause, putPauseMost) {
		ctx, cancel := context.WithTimeout(w.ctx, putTimeout)
		err := c.Put(ctx, key, f.parts()...)
		if errors.Is(err, ErrExists) {
			won, known, err = w.whose(ctx, c, key, f)
		} else if err == nil {
			won, known = true, true
		}
		cancel()
		if known {
			return won, true
		}
		if w.ctx.Err() != nil || w.forsaken(f) {
			return false, false
		}
		w.cfg.Log.Warn("put not answered; repeating it", "copy", c.Name(), "chain", w.cfg.Chain, "slot", f.slot, "err", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-w.ctx.Done():
			timer.Stop()
			return false, false
		}
	}
}

// whose reads the object that stands in the slot.
func (w *Writer) whose(ctx context.Context, c Copy, key string, f *sealedFlight) (won, known bool, err error) {
	b, err := c.GetRange(ctx, key, 0, int64(len(f.prefix)))
	if err != nil {
		return false, false, err
	}
	p, err := DecodePrefix(b)
	won = err == nil && p.Nonce == f.nonce
	if won { // seen, so made durable before it counts
		if err := c.Confirm(ctx, key); err != nil {
			return false, false, err
		}
	}
	return won, true, nil
}

// forsaken says whether a committed flight's last put is given up because too many are waiting.
func (w *Writer) forsaken(f *sealedFlight) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.decided && w.stragglers > maxStragglers
}
