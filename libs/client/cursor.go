package client

import (
	"fmt"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// cursor is where a reader stands. It is pure: it takes a server's answers and gives out records, or
// finds that an answer breaks the promise of density and wholeness.
type cursor struct {
	stream string
	next   uint64 // sequence that comes next from the server
	last   bool   // next is not known yet: it is the newest record, which the server finds
	limit  uint64 // records still wanted from the server; 0: no limit
	full   bool   // the limit is reached
	begun  bool   // the present call has sent a batch
	atEnd  bool   // the server has said that nothing lies behind next
	ready  []Record
}

// reopened notes that the next answer is the first of another call.
func (c *cursor) reopened() { c.begun, c.atEnd = false, false }

// done reports whether nothing more is wanted.
func (c *cursor) done() bool { return c.full && len(c.ready) == 0 }

// take gives out the next record, if one is ready.
func (c *cursor) take() (Record, bool) {
	if len(c.ready) == 0 {
		return Record{}, false
	}
	r := c.ready[0]
	c.ready = c.ready[1:]
	return r, true
}

// accept takes one answer whole or not at all.
func (c *cursor) accept(m *novav1.ReadResponse) error {
	for _, b := range m.GetBatches() {
		if c.full {
			return nil
		}
		if err := c.acceptBatch(b); err != nil {
			return err
		}
	}
	if c.last && len(m.GetBatches()) == 0 {
		c.next, c.last = max(m.GetEnd(), 1)-1, false
	}
	c.atEnd = m.GetCaughtUp() && m.GetEnd() <= c.next
	return nil
}

func (c *cursor) acceptBatch(b *novav1.ReadBatch) error {
	corrupt := func(format string, args ...any) error {
		return &CorruptError{Stream: c.stream, Sequence: c.next, Why: fmt.Sprintf(format, args...)}
	}
	base, end := b.GetBase(), b.GetBase()+uint64(b.GetCount())
	if end <= base {
		return corrupt("a batch at %d claims %d records", base, b.GetCount())
	}
	if c.last {
		// The newest record was the end of a batch when the server looked, so it ends the first one.
		c.next, c.last = end-1, false
	}
	switch {
	case base > c.next:
		return corrupt("the batch that follows begins at %d: records are missing", base)
	case base < c.next && c.begun, end <= c.next:
		return corrupt("the batch that follows holds %d to %d: records are repeated", base, end-1)
	case batch.CRC(b.GetRecords()) != b.GetCrc32C():
		return corrupt("the batch at %d is damaged: its CRC32C is %08x and should be %08x", base, batch.CRC(b.GetRecords()), b.GetCrc32C())
	}
	records := make([]Record, 0, min(b.GetCount(), uint32(len(b.GetRecords()))))
	for r, err := range batch.Records(b.GetRecords()) {
		if err != nil {
			return corrupt("the batch at %d is malformed: %v", base, err)
		}
		records = append(records, Record{Sequence: base + uint64(len(records)), Record: r})
	}
	if len(records) != int(b.GetCount()) {
		return corrupt("the batch at %d claims %d records and holds %d", base, b.GetCount(), len(records))
	}
	records = records[c.next-base:]
	if c.limit > 0 && uint64(len(records)) >= c.limit {
		records, c.full = records[:c.limit], true
	}
	if c.limit > 0 {
		c.limit -= uint64(len(records))
	}
	c.ready = append(c.ready, records...)
	c.next += uint64(len(records))
	c.begun = true
	return nil
}
