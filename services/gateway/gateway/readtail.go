package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// relay passes a star's Read on, from the next sequence. It returns nil when the star has said all that
// it was asked for and more is wanted, and errEnough when nothing is.
func (rd *reading) relay(ctx context.Context, star target, follow bool) error {
	if !star.known() {
		return &api.UnavailableError{Reason: novav1.Unavailable_REASON_HOLDER_UNREACHABLE, Why: fmt.Sprintf("star %q, which holds the stream's lease, is not in the fleet's registry; it may be starting or ending", star.star)}
	}
	cc, done, err := rd.gateway.conns.get(star.address)
	if err != nil {
		return err
	}
	defer done()
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := novav1.NewStreamsClient(cc).Read(call, &novav1.ReadRequest{Name: rd.name.GetName(), From: rd.next, Follow: follow, Limit: rd.left})
	if err != nil {
		return broken(ctx, star, err)
	}
	caughtUp := false
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && caughtUp && !rd.follow:
			return errEnough
		case errors.Is(err, io.EOF) && caughtUp && !follow:
			return nil
		case errors.Is(err, io.EOF):
			return &api.UnavailableError{Why: fmt.Sprintf("star %s ended the read before the end", star.star)}
		case err != nil:
			return broken(ctx, star, err)
		}
		rd.failing, rd.tries = time.Time{}, 0
		caughtUp = m.GetCaughtUp()
		if err := rd.send(m, "star"); err != nil {
			return err
		}
	}
}

// send sends what of m comes next, and ends a bounded read when it has enough. Batches that the reader
// has already are left out; a batch that would leave a hole ends the read, because it is a fault.
func (rd *reading) send(m *novav1.ReadResponse, source string) error {
	batches := m.Batches[:0]
	for _, b := range m.Batches {
		end := b.GetBase() + uint64(b.GetCount())
		if end <= rd.next {
			continue
		}
		if b.GetBase() > rd.next {
			return fmt.Errorf("read %s: sequence %d comes next and a batch at %d was served: records are missing", rd.name.GetName(), rd.next, b.GetBase())
		}
		batches = append(batches, b)
		fresh := end - rd.next
		rd.next = end
		if rd.bounded {
			rd.left -= min(rd.left, fresh)
			if rd.left == 0 {
				break
			}
		}
	}
	m.Batches = batches
	if len(batches) == 0 && !m.GetCaughtUp() {
		return nil
	}
	rd.gateway.metrics.batches.WithLabelValues(source).Add(float64(len(batches)))
	if err := rd.call.Send(m); err != nil {
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
