package star

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/flightlog"
	"nova.internal/services/sequencer/star/dedupe"
)

// errChainSealed: another star has sealed this chain. Nothing of the incarnation may go on.
var errChainSealed = errors.New("another star has sealed the chain")

// chain is one class's chain of an incarnation: its writer, its flight index, and its row.
type chain struct {
	inc    *incarnation
	name   string
	class  novav1.Class
	writer *flightlog.Writer

	mu        sync.Mutex
	index     flightlog.Index
	undecided map[string]int // batches added and not committed, by stream
	decided   chan struct{}  // closed and replaced on each commit
	version   coord.Version  // of the chain row, as last written
	floor     uint64         // in the chain row
}

func newChain(inc *incarnation, class novav1.Class) *chain {
	star := inc.star
	c := &chain{inc: inc, name: flightlog.ChainName(star.cfg.Star, inc.id, class), class: class, undecided: map[string]int{}, decided: make(chan struct{})}
	linger := star.cfg.StandardLinger
	if class == novav1.Class_CLASS_EXPRESS {
		linger = star.cfg.ExpressLinger
	}
	c.writer = flightlog.NewWriter(flightlog.WriterConfig{
		Chain: c.name, Copies: star.copies[class], Linger: linger, FlightBytes: int(star.cfg.FlightBytes), Depth: star.cfg.FlightDepth,
		OnMissed: c.missed, OnCommit: c.committed, OnDeposed: func(err error) { star.deposed(inc, err) }, Log: star.log,
	})
	return c
}

// add puts a batch of s into the chain's open flight. The stream's order is held.
func (c *chain) add(ctx context.Context, s *stream, b dedupe.Batch, producer string, a *novav1.Append) error {
	c.mu.Lock()
	c.undecided[s.id]++
	c.mu.Unlock()
	err := c.writer.Add(ctx, flightlog.Batch{
		Stream: s.id, Epoch: s.epoch, Base: b.Base, Count: b.Count, CRC: a.GetCrc32C(), Producer: producer, Number: a.GetNumber(), Records: a.GetRecords(),
	})
	if err != nil {
		c.mu.Lock()
		c.settleOne(s.id)
		c.mu.Unlock()
	}
	return err
}

// committed enters a durable flight into the index and then, batch by batch, tells the leaderships. The
// index comes first: what a leadership has acknowledged must be found by the Finish that follows.
func (c *chain) committed(f flightlog.Committed) {
	c.mu.Lock()
	c.index.Add(f.Slot, f.At, f.Batches)
	c.mu.Unlock()
	for i, b := range f.Batches {
		c.inc.committed(b.Stream, b.Epoch, tailBatch{base: b.Base, count: b.Count, crc: b.CRC, records: f.Records[i]})
	}
	c.inc.star.tails.trim()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range f.Batches {
		c.settleOne(b.Stream)
	}
	close(c.decided)
	c.decided = make(chan struct{})
}

// missed has a committed flight brought to a copy that it did not reach.
func (c *chain) missed(copy string, slot uint64, err error) {
	c.inc.star.report.missed(copy, slot, err)
	c.inc.star.repairers[c.class].Missed(copy, c.name, slot)
}

func (c *chain) settleOne(id string) {
	if c.undecided[id]--; c.undecided[id] <= 0 {
		delete(c.undecided, id)
	}
}

// awaitDecided waits until no batch of the stream is on its way through this chain.
func (c *chain) awaitDecided(ctx context.Context, id string) error {
	for {
		c.mu.Lock()
		left, decided := c.undecided[id], c.decided
		c.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// batches are the stream's committed batches that no segment covers, of every epoch.
func (c *chain) batches(id string) []epoch.Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs := c.index.Refs(id)
	out := make([]epoch.Batch, len(refs))
	for i, r := range refs {
		out[i] = located(c.name, r)
	}
	return out
}

// batchesOf are those of one epoch.
func (c *chain) batchesOf(id string, e uint64) []epoch.Batch {
	all := c.batches(id)
	kept := all[:0]
	for _, b := range all {
		if b.Epoch == e {
			kept = append(kept, b)
		}
	}
	return kept
}

func located(chain string, r flightlog.BatchRef) epoch.Batch {
	return epoch.Batch{
		Chain: chain, Slot: r.Slot, Offset: r.Offset, Length: r.Length, Base: r.Base, Count: r.Count, CRC: r.CRC,
		Epoch: r.Epoch, Producer: r.Producer, Number: r.Number,
	}
}

// read reads one batch of this chain from the copies.
func (c *chain) read(ctx context.Context, b epoch.Batch) ([]byte, error) {
	records, err := c.inc.star.readers[c.class].Pieces(ctx, b.Chain, b.Slot, []flightlog.Piece{{Offset: b.Offset, Length: b.Length, CRC: b.CRC}})
	if err != nil {
		return nil, err
	}
	return records[0], nil
}

// covered notes what a stream's head says; nil means that it has none.
func (c *chain) covered(id string, head *novav1.HeadRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if head == nil || head.GetDeleted() {
		c.index.Gone(id)
		return
	}
	c.index.Covered(id, head.GetCovered(), head.GetHolder().GetEpoch())
}

func (c *chain) due(now time.Time, age time.Duration, refs int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index.Due(now, age, refs)
}

// oldest is the age of the oldest flight that is not absorbed, 0 when all is.
func (c *chain) oldest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.index.Oldest(); !at.IsZero() {
		return time.Since(at)
	}
	return 0
}

// advanceFloor writes how far the chain is absorbed. It is this star's only write of the row while the
// chain is open, so a conflict means a seal, or an own write whose answer was lost.
func (c *chain) advanceFloor(ctx context.Context, rows *coord.Rows) error {
	c.mu.Lock()
	floor, version, stands := c.index.Floor(), c.version, c.floor
	c.mu.Unlock()
	if floor <= stands {
		return nil
	}
	return c.writeRow(ctx, rows, version, func(row *novav1.ChainRow) { row.Floor = max(row.Floor, floor) })
}

// writeRow changes the chain's row by compare-and-set, or returns errChainSealed.
func (c *chain) writeRow(ctx context.Context, rows *coord.Rows, version coord.Version, change func(*novav1.ChainRow)) error {
	c.mu.Lock()
	row := &novav1.ChainRow{Chain: c.name, Class: c.class, State: novav1.ChainState_CHAIN_STATE_OPEN, Floor: c.floor}
	c.mu.Unlock()
	for {
		next := proto.CloneOf(row)
		change(next)
		v, err := rows.Put(ctx, coord.ChainKey(c.name), next, version)
		if err == nil {
			c.mu.Lock()
			c.version, c.floor = v, next.GetFloor()
			c.mu.Unlock()
			return nil
		}
		if !errors.Is(err, coord.ErrConflict) {
			return fmt.Errorf("write the row of chain %s: %w", c.name, err)
		}
		if version, err = rows.Get(ctx, coord.ChainKey(c.name), row); err != nil {
			return fmt.Errorf("read the row of chain %s: %w", c.name, err)
		}
		if row.GetState() != novav1.ChainState_CHAIN_STATE_OPEN {
			return fmt.Errorf("chain %s: %w", c.name, errChainSealed)
		}
	}
}

// close ends the chain of a star that stops. Where every leadership was certified, nothing below the
// next slot is uncovered, and the row says so: the next start scans nothing. The writer is closed first,
// so no flight can follow the seal, and no poison is needed.
func (c *chain) close(ctx context.Context, certified bool) {
	log := c.inc.star.log
	if err := c.writer.Close(ctx); err != nil && !errors.Is(err, flightlog.ErrClosed) {
		log.Warn("the chain was not closed cleanly; it will be fenced", "chain", c.name, "err", err)
		return
	}
	c.mu.Lock()
	next, left, version := c.writer.State().Next, c.index.Slots(), c.version
	c.mu.Unlock()
	if !certified || left > 0 {
		return
	}
	err := c.writeRow(ctx, c.inc.star.fleet.Rows(), version, func(row *novav1.ChainRow) {
		row.State, row.Floor, row.Seal = novav1.ChainState_CHAIN_STATE_SETTLED, next, next
	})
	if err != nil {
		log.Warn("the chain's row was not closed; it will be fenced", "chain", c.name, "err", err)
	}
}
