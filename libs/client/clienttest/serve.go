package clienttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

func (s *server) lookup(name string) (*stream, error) {
	if err := api.CheckStreamName(name); err != nil {
		return nil, err
	}
	if st := s.fleet.find(name); st != nil {
		return st, nil
	}
	return nil, fmt.Errorf("%w: %q; create it first", api.ErrUnknownStream, name)
}

// Produce serves one handle: acks go out on a goroutine of their own.
func (s *server) Produce(call novav1.Streams_ProduceServer) error {
	m, err := call.Recv()
	if err != nil {
		return err
	}
	open := m.GetOpen()
	s.fleet.mu.Lock()
	s.fleet.opens = append(s.fleet.opens, open)
	s.fleet.asked = append(s.fleet.asked, s.name)
	s.fleet.mu.Unlock()
	st, err := s.lookup(open.GetName())
	if err != nil {
		return err
	}
	h, err := st.attach(s.index, s.name, s.fleet.addresses, open)
	if err != nil {
		return err
	}
	st.mu.Lock()
	leader, _ := s.fleet.addresses(st.leader)
	opened := &novav1.Opened{
		Epoch: st.epoch, Next: st.next, Star: leader,
		WindowBytes: uint32(s.fleet.opts.WindowBytes), MaxRecordBytes: uint32(s.fleet.opts.MaxRecordBytes), MaxBatchBytes: uint32(s.fleet.opts.MaxBatchBytes),
	}
	st.mu.Unlock()
	if err := call.Send(&novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	defer func() {
		st.mu.Lock()
		delete(st.handles, h)
		st.mu.Unlock()
	}()
	go s.take(call, st, h) // ends with the call
	for {
		select {
		case m := <-h.out:
			if err := call.Send(m); err != nil {
				return err
			}
			continue
		default:
		}
		select {
		case m := <-h.out:
			if err := call.Send(m); err != nil {
				return err
			}
		case err := <-h.end:
			return s.part(call, st, h, leader, err)
		case <-call.Context().Done():
			return call.Context().Err()
		}
	}
}

// part ends a handle. Answers go before Moved and before a goodbye; a broken handle loses them.
func (s *server) part(call novav1.Streams_ProduceServer, st *stream, h *handle, was string, err error) error {
	if err != nil && !errors.Is(err, errMoved) {
		return err
	}
	for len(h.out) > 0 {
		if err := call.Send(<-h.out); err != nil {
			return err
		}
	}
	if err == nil {
		return nil
	}
	st.mu.Lock()
	star, address := s.fleet.addresses(st.leader)
	st.mu.Unlock()
	return call.Send(&novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Moved{Moved: &novav1.Moved{Star: star, Address: address, Handoff: "from-" + was}}})
}

// take receives batches until one is not taken.
func (s *server) take(call novav1.Streams_ProduceServer, st *stream, h *handle) {
	for {
		m, err := call.Recv()
		if errors.Is(err, io.EOF) || err == nil && m.GetClose() != nil {
			h.stop(nil)
			return
		}
		if err != nil {
			h.stop(err)
			return
		}
		fault := None
		if s.fleet.opts.Fault != nil {
			fault = s.fleet.opts.Fault()
		}
		switch fault {
		case Refuse:
			h.stop(&api.UnavailableError{Why: "injected"})
			return
		case Overload:
			h.stop(&api.BoundError{Name: "injected", Limit: 1, RetryAfter: s.fleet.opts.RetryAfter})
			return
		case Move:
			st.mu.Lock()
			_, attached := st.handles[h]
			to := (max(st.leader, 0) + 1) % len(s.fleet.stars)
			st.mu.Unlock()
			if attached {
				s.fleet.Lead(st.info.GetName(), to)
			}
			return
		case Swallow:
			continue
		case LateAck:
			time.Sleep(lateness)
		}
		at, err := st.append(h, m.GetAppend(), s.fleet.opts.MaxRecordBytes)
		switch {
		case err != nil:
			h.stop(err)
			return
		case fault == LoseAck:
			h.stop(&api.UnavailableError{Why: "injected after the batch was stored"})
			return
		case fault == CutConn:
			s.fleet.CutConnections()
			return
		}
		h.out <- &novav1.ProduceResponse{Kind: &novav1.ProduceResponse_Ack{Ack: &novav1.Ack{Number: at.number, Base: at.base, Count: at.count}}}
	}
}

// Read serves a reader from whoever leads; a vacant stream is served by all.
func (s *server) Read(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
	st, err := s.lookup(r.GetName())
	if err != nil {
		return err
	}
	st.mu.Lock()
	next, leader := r.GetFrom(), st.leader
	if r.GetLast() {
		next = max(st.next, 1) - 1
	}
	st.mu.Unlock()
	if s.index >= 0 && leader >= 0 && leader != s.index {
		name, address := s.fleet.addresses(leader)
		return &api.NotOwnerError{Star: name, Address: address, From: s.name}
	}
	left := r.GetLimit()
	for {
		batches, end, grown := st.from(next)
		for _, b := range batches {
			if s.fleet.opts.ReadHang != nil && s.fleet.opts.ReadHang() {
				<-call.Context().Done()
				return call.Context().Err()
			}
			if s.fleet.opts.ReadFault != nil && s.fleet.opts.ReadFault() {
				return &api.UnavailableError{Why: "injected"}
			}
			if err := call.Send(&novav1.ReadResponse{Batches: []*novav1.ReadBatch{b}, End: end}); err != nil {
				return err
			}
			got := b.GetBase() + uint64(b.GetCount()) - next
			next += got
			if r.GetLimit() > 0 && got >= left {
				return nil
			}
			left -= min(left, got)
		}
		if err := call.Send(&novav1.ReadResponse{End: end, CaughtUp: true}); err != nil || !r.GetFollow() {
			return err
		}
		select {
		case <-grown:
		case <-call.Context().Done():
			return call.Context().Err()
		}
	}
}

func (s *server) Create(_ context.Context, r *novav1.CreateRequest) (*novav1.StreamInfo, error) {
	if err := api.CheckStreamName(r.GetName()); err != nil {
		return nil, err
	}
	mode := max(r.GetMode(), novav1.Mode_MODE_ANY)
	class := max(r.GetClass(), novav1.Class_CLASS_STANDARD)
	if s.fleet.find(r.GetName()) == nil {
		s.fleet.Create(r.GetName(), mode)
		s.fleet.find(r.GetName()).info.Class = class
	}
	info := s.describe(s.fleet.find(r.GetName()))
	if info.GetMode() != mode || info.GetClass() != class {
		return nil, fmt.Errorf("%w: %q", api.ErrStreamExists, r.GetName())
	}
	return info, nil
}

func (s *server) Delete(_ context.Context, r *novav1.DeleteRequest) (*novav1.DeleteResponse, error) {
	if _, err := s.lookup(r.GetName()); err != nil {
		return nil, err
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	delete(s.fleet.streams, r.GetName())
	return &novav1.DeleteResponse{}, nil
}

func (s *server) Describe(_ context.Context, r *novav1.DescribeRequest) (*novav1.StreamInfo, error) {
	st, err := s.lookup(r.GetName())
	if err != nil {
		return nil, err
	}
	return s.describe(st), nil
}

func (s *server) describe(st *stream) *novav1.StreamInfo {
	st.mu.Lock()
	defer st.mu.Unlock()
	info := proto.CloneOf(st.info)
	info.Epoch, info.Next, info.NextKnown, info.Clean = st.epoch, st.next, true, st.leader < 0
	if st.leader >= 0 {
		info.Leader, info.LeaderAddress = s.fleet.addresses(st.leader)
	}
	return info
}

func (s *server) List(r *novav1.ListRequest, call novav1.Streams_ListServer) error {
	for _, st := range s.fleet.all() {
		if info := s.describe(st); strings.HasPrefix(info.GetName(), r.GetPrefix()) {
			if err := call.Send(info); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) Fleet(context.Context, *novav1.FleetRequest) (*novav1.FleetResponse, error) {
	resp := &novav1.FleetResponse{}
	for _, star := range s.fleet.stars {
		resp.Stars = append(resp.Stars, &novav1.FleetStar{
			Star:  &novav1.StarRow{Star: star.name, Address: star.address, Location: "here", Incarnation: "inc-" + star.name, Version: "test"},
			Stats: &novav1.StatsRow{Star: star.name, Leaders: 1, AppendBytesPerSecond: 2048, Saturation: 0.25},
		})
	}
	return resp, nil
}

func (s *server) Handoff(_ context.Context, r *novav1.AdminHandoffRequest) (*novav1.AdminHandoffResponse, error) {
	st, err := s.lookup(r.GetName())
	if err != nil {
		return nil, err
	}
	info := s.describe(st)
	if info.GetLeader() == "" {
		return nil, &api.RefusedError{Why: "the stream is vacant: nothing to hand off"}
	}
	for i, star := range s.fleet.stars {
		if star.name != info.GetLeader() && (r.GetTarget() == "" || r.GetTarget() == star.name) {
			s.fleet.Lead(r.GetName(), i)
			return &novav1.AdminHandoffResponse{Handoff: "h1", From: info.GetLeader(), To: star.name, Epoch: info.GetEpoch(), Covered: info.GetNext()}, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", api.ErrUnknownStar, r.GetTarget())
}

func (s *server) Events(r *novav1.EventsRequest, call novav1.Admin_EventsServer) error {
	s.fleet.mu.Lock()
	events := append([]*novav1.EventsResponse(nil), s.fleet.events...)
	s.fleet.mu.Unlock()
	for _, e := range events {
		if r.GetKind() != "" && !strings.HasPrefix(e.GetSubject(), "nova.event."+r.GetKind()+".") {
			continue
		}
		if err := call.Send(e); err != nil {
			return err
		}
	}
	if r.GetFollow() {
		<-call.Context().Done()
		return call.Context().Err()
	}
	return nil
}
