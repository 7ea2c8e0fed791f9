package star

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/flightlog"
)

const (
	readChunk    = 1 << 20 // bytes of records in one response
	readPoll     = 20 * time.Millisecond
	readPollMost = 500 * time.Millisecond
	settleWait   = 30 * time.Second
)

// Read serves one reader (novav1.StreamsServer): published segments from the copies, then, where this
// star leads, the un-absorbed tail and what is still to come.
//
//	from < covered   cold: segment rows and copies, as any star or gateway can
//	from ≥ covered   led here: the tail window, or this chain's own flights
//	                 led elsewhere: NOT_OWNER, with the address
//	                 led nowhere, with a mark: the end (or, following, wait for a leader)
//	                 led nowhere, without a mark: settle first; the end is not known before
//
// Only acknowledged records are shown: segments hold nothing else, and the tail ends at committed.
func (s *Star) Read(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
	ctx := call.Context()
	name, err := s.lookup(ctx, r.GetName())
	if err != nil {
		return err
	}
	rd := &reading{star: s, name: name, call: call, next: r.GetFrom(), follow: r.GetFollow(), left: r.GetLimit(), bounded: r.GetLimit() > 0}
	if r.GetLast() {
		end, err := s.end(ctx, name)
		if err != nil {
			return err
		}
		rd.next = max(end, 1) - 1
	}
	return refusal(rd.run(ctx), "read "+r.GetName())
}

// reading is one Read call.
type reading struct {
	star    *Star
	name    *novav1.NameRow
	call    novav1.Streams_ReadServer
	next    uint64 // sequence to send next
	follow  bool
	left    uint64 // records still wanted, when bounded
	bounded bool
}

// errEnough: the reader has all it asked for.
var errEnough = errors.New("enough")

func (rd *reading) run(ctx context.Context) error {
	pause := readPoll
	for {
		progress, err := rd.step(ctx)
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		if progress {
			pause = readPoll
			continue
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, readPollMost)
	}
}

// step sends what can be sent now. Without progress the caller asks again later.
func (rd *reading) step(ctx context.Context) (progress bool, err error) {
	st := rd.star.current().find(rd.name.GetId())
	if st != nil {
		batches, end, more, err := st.readTail(rd.next, readChunk)
		switch {
		case err == nil && more == nil:
			st.meter.hotRead.Add(int64(bytesOf(batches)))
			return true, rd.sendTail(batches, end)
		case err == nil:
			return true, rd.await(ctx, end, more)
		case errors.Is(err, errBelowTail):
			return true, rd.belowTail(ctx, st)
		}
	}
	head, err := rd.star.readHead(ctx, rd.name.GetId())
	if err != nil {
		return false, err
	}
	if head.GetDeleted() {
		return false, fmt.Errorf("%w: %q was deleted", api.ErrUnknownStream, rd.name.GetName())
	}
	if rd.next < head.GetCovered() {
		return true, rd.cold(ctx, head.GetCovered())
	}
	if lease, err := rd.star.fleet.Leases().Holder(ctx, rd.name.GetId()); err == nil && lease.GetStar() != rd.star.cfg.Star && !lease.GetSettling() {
		return false, rd.star.notOwner(ctx, lease.GetStar())
	} else if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return false, err
	}
	if head.GetHolder() != nil && !epoch.CleanlyReleased(head) {
		return true, rd.star.settleForReader(ctx, rd.name)
	}
	if rd.follow {
		return false, nil
	}
	return false, rd.sendEnd(head.GetCovered())
}

// settleForReader waits until the stream's end is known.
func (s *Star) settleForReader(ctx context.Context, name *novav1.NameRow) error {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	return s.settle(ctx, name)
}

// await waits at the tail for more, or ends the call there.
func (rd *reading) await(ctx context.Context, end uint64, more <-chan struct{}) error {
	if !rd.follow {
		return rd.sendEnd(end)
	}
	if err := rd.call.Send(&novav1.ReadResponse{End: end, CaughtUp: true}); err != nil {
		return err
	}
	select {
	case <-more:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-rd.star.stopping:
		return unavailable(novav1.Unavailable_REASON_DEPARTING, "this star is stopping; read on elsewhere")
	}
}

// belowTail reads, on the leader, what has left the tail window: published segments, or this chain's
// own flights by the flight index.
func (rd *reading) belowTail(ctx context.Context, st *stream) error {
	head, err := rd.star.readHead(ctx, st.id)
	if err != nil {
		return err
	}
	if rd.next < head.GetCovered() {
		return rd.cold(ctx, head.GetCovered())
	}
	sent := false
	for _, b := range st.chain.batches(st.id) {
		if b.Epoch != head.GetEpoch() || b.End() <= rd.next {
			continue
		}
		if b.Base > rd.next {
			break
		}
		records, err := st.chain.read(ctx, b)
		if err != nil {
			return err
		}
		st.meter.hotRead.Add(int64(len(records)))
		if err := rd.sendTail([]tailBatch{{base: b.Base, count: b.Count, crc: b.CRC, records: records}}, b.End()); err != nil {
			return err
		}
		sent = true
	}
	if !sent && !sleep(ctx, parkPoll) { // it was published or released meanwhile: look again
		return ctx.Err()
	}
	return nil
}

// cold sends published segments up to covered.
func (rd *reading) cold(ctx context.Context, covered uint64) error {
	out := &novav1.ReadResponse{}
	size := 0
	err := flightlog.Scan(ctx, rd.star.readers[rd.name.GetClass()], segments{rd.star.fleet}, rd.name.GetId(), rd.next, covered, func(b flightlog.ScanBatch) error {
		out.Batches = append(out.Batches, &novav1.ReadBatch{Base: b.Base, Count: b.Count, Crc32C: b.CRC, Records: b.Records})
		if size += len(b.Records); size < readChunk {
			return nil
		}
		err := rd.send(out, covered)
		out, size = &novav1.ReadResponse{}, 0
		return err
	})
	if err == nil && len(out.Batches) > 0 {
		err = rd.send(out, covered)
	}
	return err
}

func (rd *reading) sendTail(batches []tailBatch, end uint64) error {
	out := &novav1.ReadResponse{}
	for _, b := range batches {
		out.Batches = append(out.Batches, &novav1.ReadBatch{Base: b.base, Count: b.count, Crc32C: b.crc, Records: b.records})
	}
	return rd.send(out, end)
}

// send sends batches, moves next past them and ends a bounded read when it has enough.
func (rd *reading) send(out *novav1.ReadResponse, end uint64) error {
	for i, b := range out.Batches {
		next := b.GetBase() + uint64(b.GetCount())
		if rd.bounded && next-rd.next >= rd.left {
			out.Batches, rd.left = out.Batches[:i+1], 0
			break
		}
		rd.left -= min(rd.left, next-rd.next)
		rd.next = next
	}
	out.End = end
	if err := rd.call.Send(out); err != nil {
		return err
	}
	if rd.bounded && rd.left == 0 {
		return errEnough
	}
	return nil
}

func (rd *reading) sendEnd(end uint64) error {
	if err := rd.call.Send(&novav1.ReadResponse{End: end, CaughtUp: true}); err != nil {
		return err
	}
	return errEnough
}

// end is the sequence after the newest acknowledged record of the stream.
func (s *Star) end(ctx context.Context, name *novav1.NameRow) (uint64, error) {
	for {
		if st := s.current().find(name.GetId()); st != nil {
			if _, end, _, err := st.readTail(^uint64(0), 0); err == nil {
				return end, nil
			}
		}
		head, err := s.readHead(ctx, name.GetId())
		if err != nil {
			return 0, err
		}
		if head.GetHolder() == nil || epoch.CleanlyReleased(head) {
			return head.GetCovered(), nil
		}
		if lease, err := s.fleet.Leases().Holder(ctx, name.GetId()); err == nil && lease.GetStar() != s.cfg.Star && !lease.GetSettling() {
			return 0, s.notOwner(ctx, lease.GetStar())
		}
		if err := s.settleForReader(ctx, name); err != nil {
			return 0, refusal(err, "find the end of "+name.GetName())
		}
	}
}

// Tail answers where a led stream ends.
func (s *Star) Tail(ctx context.Context, r *novav1.TailRequest) (*novav1.TailResponse, error) {
	st, e, err := s.led(r.GetId())
	if err != nil {
		return nil, err
	}
	_, end, _, err := st.readTail(^uint64(0), 0)
	if err != nil {
		return nil, unavailable(novav1.Unavailable_REASON_DEPARTING, "the leadership is ending here")
	}
	return &novav1.TailResponse{Next: end, Epoch: e}, nil
}

func bytesOf(batches []tailBatch) int {
	n := 0
	for _, b := range batches {
		n += len(b.records)
	}
	return n
}

// segments lets the cold reader find segment rows.
type segments struct{ fleet *coord.Fleet }

func (s segments) Floor(ctx context.Context, id string, seq uint64) (*novav1.SegmentRow, error) {
	row := &novav1.SegmentRow{}
	if _, _, err := s.fleet.Rows().Floor(ctx, coord.SegmentKey(id, seq), row); err != nil {
		return nil, err
	}
	return row, nil
}
