package flightlog

import (
	"errors"
)

// tellLoop calls the callbacks, one at a time: commits in slot order, then, when the writer is deposed,
// that. What was committed and not told before a deposition is told to nobody: it stands, and whoever
// fences the chain finds it.
func (w *Writer) tellLoop() {
	for {
		w.mu.Lock()
		err := w.err
		var f *boarding
		var m *miss
		switch {
		case err != nil:
		case len(w.untold) > 0:
			f = w.untold[0]
		case len(w.missed) > 0:
			m = &w.missed[0]
		}
		w.mu.Unlock()
		switch {
		case err != nil:
			if w.cfg.OnDeposed != nil && !errors.Is(err, ErrClosed) {
				w.cfg.OnDeposed(err)
			}
			return
		case f != nil:
			w.tellCommit(f)
		case m != nil:
			w.tellMiss(*m)
		default:
			<-w.tell
		}
	}
}

func (w *Writer) tellCommit(f *boarding) {
	if w.cfg.Meter != nil {
		w.cfg.Meter.Commit(len(f.batches), f.bytes, f.at.Sub(f.since))
	}
	w.cfg.OnCommit(Committed{Slot: f.Slot, At: f.at, Batches: f.refs, Records: f.parts[1:]})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.untold[0] = nil
	w.untold = w.untold[1:]
	w.waiting -= f.bytes
	w.sealDue()
	w.signal()
}

func (w *Writer) tellMiss(m miss) {
	w.cfg.Log.Warn("a committed flight is missing on a copy", "copy", m.copy, "chain", w.cfg.Chain, "slot", m.slot, "err", m.err)
	if w.cfg.OnMissed != nil {
		w.cfg.OnMissed(m.copy, m.slot, m.err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = w.missed[1:]
	w.signal()
}
