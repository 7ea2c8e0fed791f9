package star

import (
	"context"
	"errors"
	"io"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// windowBytes is what a producer may have unanswered at most.
const windowBytes = 8 << 20

// Produce serves one producer handle (novav1.StreamsServer).
//
//	call's goroutine:  Open ─▶ attach ─▶ Opened ─▶ send acks … Moved │ error
//	receiver:          Append ─▶ window ─▶ stream.append
//
// The receiver stops at the first batch that is not accepted: whatever the producer sent behind it must
// not overtake it. It ends when the call does, because gRPC then cancels its Recv.
func (s *Star) Produce(call novav1.Streams_ProduceServer) error {
	ctx := call.Context()
	first, err := call.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return &api.FieldError{Field: "open", Why: "the first message of a Produce call is Open"}
	}
	h, err := s.attach(ctx, open)
	if err != nil {
		return err
	}
	defer h.stream.detach(h)
	opened := h.stream.welcome(h)
	if err := call.Send(&novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	s.goes(func() { h.receive(ctx, call, int(opened.WindowBytes)) })
	for {
		out, ended, err := h.take()
		for _, m := range out {
			if serr := call.Send(m); serr != nil {
				return serr
			}
		}
		if ended {
			return err
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes the producer's batches until the call, the producer or the leadership ends.
func (h *handle) receive(ctx context.Context, call novav1.Streams_ProduceServer, window int) {
	for {
		m, err := call.Recv()
		switch {
		case errors.Is(err, io.EOF):
			h.finishQuietly(ctx)
			return
		case err != nil:
			h.end(err)
			return
		}
		a := m.GetAppend()
		if a == nil {
			if m.GetClose() != nil {
				h.finishQuietly(ctx)
				return
			}
			h.end(&api.FieldError{Field: "kind", Why: "after Open a Produce call carries Append and Close"})
			return
		}
		if !h.awaitWindow(ctx, len(a.GetRecords()), window) || h.admit(ctx, len(a.GetRecords())) != nil {
			return
		}
		switch err := h.stream.append(ctx, h, a); {
		case err == nil:
		case errors.Is(err, errNotAccepted):
			// The departure tells the handle where to go; nothing behind this batch may be taken.
			h.returnWindow(len(a.GetRecords()))
			return
		default:
			h.end(err)
			return
		}
	}
}

// awaitWindow waits until the batch fits the window, leaving the rest in the socket.
func (h *handle) awaitWindow(ctx context.Context, bytes, window int) bool {
	for !h.claimWindow(bytes, window) {
		select {
		case <-h.room:
		case <-ctx.Done():
			return false
		}
		if h.hasEnded() {
			return false
		}
	}
	return true
}

// finishQuietly ends the handle once everything it sent is answered.
func (h *handle) finishQuietly(ctx context.Context) {
	if h.awaitWindow(ctx, windowBytes*2, windowBytes) {
		h.end(nil)
	}
}
