package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/epoch"
	"nova.internal/libs/flightlog"
)

// readChunk is how many bytes of records one response carries, about.
const readChunk = 1 << 20

// Read serves one reader (novav1.StreamsServer), over as many leaders as the stream has meanwhile.
//
//	below covered     published segments, from the copies, or through any star where none can be read here
//	above, led        the leader's Read, from the next sequence on; when it breaks, look again
//	above, vacant     with a mark: the end, or, following, wait for a leader
//	                  without: a star settles the stream first; before that nobody knows its end
//
// Nothing is sent twice and nothing is left out: each batch is held against the sequence that comes next.
func (g *Gateway) Read(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
	ctx, end := g.life(call.Context())
	defer end()
	name, err := g.lookup(ctx, r.GetName())
	if err != nil {
		return ended(ctx, err)
	}
	rd := &reading{
		gateway: g, name: name, call: call, next: r.GetFrom(), last: r.GetLast(), follow: r.GetFollow(),
		left: r.GetLimit(), bounded: r.GetLimit() > 0,
	}
	err = rd.run(ctx)
	if errors.Is(err, errEnough) {
		return nil
	}
	return ended(ctx, err)
}

// errEnough: the reader has all it asked for.
var errEnough = errors.New("enough")

// reading is one Read call.
type reading struct {
	gateway *Gateway
	name    *novav1.NameRow
	call    novav1.Streams_ReadServer

	next    uint64 // sequence to send next
	last    bool   // next is not known yet: begin at the newest record
	follow  bool
	left    uint64 // records still wanted, when bounded
	bounded bool

	failing time.Time // since when nothing succeeds; zero while something does
	tries   int       // since then
}

// run goes from step to step until the reader has enough. What should not last is tried again, as long as
// the read timeout allows from the first failure on.
func (rd *reading) run(ctx context.Context) error {
	pace := newPace()
	for {
		progress, err := rd.step(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			rd.failing, rd.tries = time.Time{}, 0
			if progress {
				pace.reset()
				continue
			}
		case !again(err):
			return err
		default:
			rd.tries++
			if rd.failing.IsZero() {
				rd.failing = time.Now()
			}
			if time.Since(rd.failing) > rd.gateway.cfg.ReadTimeout {
				return &api.UnavailableError{Why: "no progress within " + rd.gateway.cfg.ReadTimeout.String() + "; last: " + err.Error(), RetryAfter: time.Second}
			}
		}
		if !pace.wait(ctx, retryAfter(err)) {
			return ctx.Err()
		}
	}
}

// again says that looking anew may find better: the star does not lead, or does not answer.
func again(err error) bool {
	var other *api.NotOwnerError
	return errors.As(err, &other) || retryable(err)
}

// step sends what can be sent now. Without progress, and after an error, the caller waits a little.
//
// The head is read before the lease: a stream that is found clean and then vacant ended at covered at
// some moment in between.
func (rd *reading) step(ctx context.Context) (progress bool, err error) {
	g := rd.gateway
	head, err := g.readHead(ctx, rd.name.GetId())
	if err != nil {
		return false, err
	}
	if head.GetDeleted() {
		return false, fmt.Errorf("%w: %q was deleted", api.ErrUnknownStream, rd.name.GetName())
	}
	if !rd.last && rd.next < head.GetCovered() {
		return true, rd.published(ctx, head.GetCovered())
	}
	lease, err := g.holder(ctx, rd.name.GetId())
	if err != nil {
		return false, err
	}
	switch {
	case lease != nil && !lease.GetSettling():
		leader := g.named(ctx, lease.GetStar())
		if rd.last {
			tail, err := g.tail(ctx, leader, rd.name.GetId())
			var refused *api.RefusedError
			if errors.As(err, &refused) { // its gate has not passed yet, or it has just left
				err = &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEPARTING, Why: refused.Why}
			}
			if err != nil {
				return false, err
			}
			rd.begin(tail.GetNext())
			return true, nil
		}
		return true, rd.relay(ctx, leader, rd.follow)
	case head.GetHolder() != nil && !epoch.CleanlyReleased(head):
		return false, rd.settle(ctx)
	case rd.last:
		rd.begin(head.GetCovered())
		return true, nil
	case rd.follow:
		return false, nil
	}
	return false, rd.sendEnd(head.GetCovered())
}

// begin sets the read to the newest record below end.
func (rd *reading) begin(end uint64) { rd.next, rd.last = max(end, 1)-1, false }

// settle asks a star to find the stream's end. It does not say that it did: the head does.
func (rd *reading) settle(ctx context.Context) error {
	star, err := rd.someStar(ctx)
	if err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, rd.gateway.cfg.ReadTimeout)
	defer cancel()
	cc, done, err := rd.gateway.conns.get(star.address)
	if err != nil {
		return err
	}
	defer done()
	_, err = novav1.NewStarClient(cc).Settle(limit, &novav1.SettleRequest{Name: rd.name.GetName()})
	return starError(ctx, silence(ctx, star, err))
}

// someStar is a star that answers for the stream without leading it: the designate, and after a failure
// each of the fleet in turn.
func (rd *reading) someStar(ctx context.Context) (target, error) {
	stars := rd.gateway.fleet.Registry().Snapshot().Stars
	if rd.tries == 0 || len(stars) == 0 {
		t, err := rd.gateway.leaderOf(ctx, rd.name.GetId())
		var bound *api.BoundError
		if errors.As(err, &bound) || err == nil && !t.known() {
			err = &api.UnavailableError{Why: "no star of the fleet is there to find the stream's end"}
			if len(stars) > 0 {
				t, err = target{stars[0].Star.GetStar(), stars[0].Star.GetAddress()}, nil
			}
		}
		return t, err
	}
	s := stars[(rd.tries-1)%len(stars)].Star
	return target{s.GetStar(), s.GetAddress()}, nil
}

// published sends segments up to covered: from the copies, or through a star where this gateway can read
// none of them.
func (rd *reading) published(ctx context.Context, covered uint64) error {
	reader := rd.gateway.stores.reader(ctx, rd.name.GetClass())
	if reader != nil {
		err := rd.cold(ctx, reader, covered)
		if err == nil || errors.Is(err, errEnough) || ctx.Err() != nil {
			return err
		}
		if rd.tries == 0 {
			rd.gateway.log.Warn("published records could not be read here; asking a star", "stream", rd.name.GetName(), "next", rd.next, "err", err)
		}
	}
	star, err := rd.someStar(ctx)
	if err != nil {
		return err
	}
	return rd.relay(ctx, star, false)
}

func (rd *reading) cold(ctx context.Context, reader *flightlog.Reader, covered uint64) error {
	out, size := &novav1.ReadResponse{End: covered}, 0
	err := flightlog.Scan(ctx, reader, segments{rd.gateway.fleet.Rows()}, rd.name.GetId(), rd.next, covered, func(b flightlog.ScanBatch) error {
		out.Batches = append(out.Batches, &novav1.ReadBatch{Base: b.Base, Count: b.Count, Crc32C: b.CRC, Records: b.Records})
		if size += len(b.Records); size < readChunk {
			return nil
		}
		err := rd.send(out, "copies")
		out, size = &novav1.ReadResponse{End: covered}, 0
		return err
	})
	if err == nil && len(out.Batches) > 0 {
		err = rd.send(out, "copies")
	}
	return err
}
