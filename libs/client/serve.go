package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// serve sends on h until it ends, and says how it ended.
func (p *Producer) serve(ctx context.Context, h opened[greeted]) error {
	var end error
	done := make(chan struct{})
	go func() {
		defer close(done)
		end = p.receive(h)
		h.cancel() // lets a blocked send go
	}()
	left := p.send(ctx, h, done)
	h.cancel()
	<-done
	if left {
		return errLeft
	}
	return fmt.Errorf("%s: %w", h.at.address, end)
}

// receive takes answers until the handle ends, and says how it ended.
func (p *Producer) receive(h opened[greeted]) error {
	for {
		m, err := h.call.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return &api.UnavailableError{Why: "the leader ended the handle"}
		case err != nil:
			return api.FromError(err)
		}
		switch k := m.GetKind().(type) {
		case *novav1.ProduceResponse_Ack:
			if err := p.acked(k.Ack); err != nil {
				return err
			}
		case *novav1.ProduceResponse_Moved:
			return &movedError{to: target{star: k.Moved.GetStar(), address: k.Moved.GetAddress()}, from: h.call.hello.GetStar()}
		}
	}
}

// acked resolves what one answer resolves.
func (p *Producer) acked(a *novav1.Ack) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
	if err := p.w.ack(a.GetNumber(), a.GetBase(), a.GetCount()); err != nil {
		return err
	}
	for b := p.w.resolved(); b != nil; b = p.w.resolved() {
		b.place.resolve(b.base, nil)
		p.buffered -= len(b.records)
	}
	p.announce()
	signal(p.wake)
	return nil
}

// send sends what may be sent until done, or until the producer is closed and everything is answered:
// then it says goodbye and returns true.
func (p *Producer) send(ctx context.Context, h opened[greeted], done <-chan struct{}) (left bool) {
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	for {
		b, wait, leave := p.nextToSend(time.Now())
		switch {
		case leave:
			goodbye(h, done)
			return true
		case b != nil:
			// A failed send has its reason in what the receiver gets.
			if err := h.call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{
				Number: b.number, Count: b.count, Crc32C: b.crc, Records: b.records,
			}}}); err == nil {
				continue
			}
			<-done
			return false
		}
		linger.Reset(wait)
		select {
		case <-p.wake:
		case <-linger.C:
		case <-done:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// nextToSend returns the batch to send now, or how long to wait for one, or that Close is done.
func (p *Producer) nextToSend(now time.Time) (b *sealed, wait time.Duration, leave bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, time.Hour, false
	}
	wait = time.Hour
	if p.building.count > 0 && p.w.room() {
		wait = p.opts.Linger - now.Sub(p.building.since)
		if wait <= 0 || len(p.building.records) >= p.opts.MaxBatchBytes {
			p.w.add(p.building.seal())
			wait = time.Hour
		}
	}
	if b = p.w.next(); b != nil {
		if !p.w.waiting() {
			p.heard = now
			signal(p.due)
		}
		p.w.send(b)
	}
	return b, wait, b == nil && p.closing && p.idle()
}

// goodbye tells the leader that the producer leaves, and gives it a moment to agree.
func goodbye(h opened[greeted], done <-chan struct{}) {
	if h.call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Close{Close: &novav1.Close{}}}) != nil || h.call.CloseSend() != nil {
		return
	}
	t := time.NewTimer(parting)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
