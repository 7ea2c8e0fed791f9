package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/oxia-db/oxia/common/concurrent"
	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server"
	"github.com/oxia-db/oxia/server/kv"
	"github.com/oxia-db/oxia/server/wal"
)

// orderedWal puts concurrent appends back into offset order.
type orderedWal struct {
	wal.Wal
	mu      sync.Mutex
	next    int64
	waiting map[int64]func()
}

func (w *orderedWal) AppendAndSync(e *proto.LogEntry, cb func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[int64]func(){}
		w.next = w.Wal.LastOffset() + 1
	}
	entry := &proto.LogEntry{Term: e.Term, Offset: e.Offset, Value: append([]byte(nil), e.Value...), Timestamp: e.Timestamp}
	w.waiting[e.Offset] = func() { w.Wal.AppendAndSync(entry, cb) }
	for f := w.waiting[w.next]; f != nil; f = w.waiting[w.next] {
		delete(w.waiting, w.next)
		w.next++
		f()
	}
}

type factory struct{ wal.Factory }

func (f factory) NewWal(ns string, shard int64, p wal.CommitOffsetProvider) (wal.Wal, error) {
	w, err := f.Factory.NewWal(ns, shard, p)
	if err != nil {
		return nil, err
	}
	return &orderedWal{Wal: w}, nil
}

type Server struct {
	proto.UnimplementedOxiaClientServer
	lc  server.LeaderController
	g   *grpc.Server
	l   net.Listener
	asg server.ShardAssignmentsDispatcher
}

func Start(dir string, sync bool) (*Server, error) {
	wf := factory{wal.NewWalFactory(&wal.FactoryOptions{BaseWalDir: dir + "/wal", Retention: 3600e9, SegmentSize: wal.DefaultFactoryOptions.SegmentSize, SyncData: sync})}
	kf, err := kv.NewPebbleKVFactory(&kv.FactoryOptions{DataDir: dir + "/db"})
	if err != nil {
		return nil, err
	}
	lc, err := server.NewLeaderController(server.Config{NotificationsRetentionTime: 3600e9}, constant.DefaultNamespace, 0, nil, wf, kf)
	if err != nil {
		return nil, err
	}
	term := lc.Term() + 1
	if _, err := lc.NewTerm(&proto.NewTermRequest{Shard: 0, Term: term, Options: &proto.NewTermOptions{EnableNotifications: true}}); err != nil {
		return nil, err
	}
	if _, err := lc.BecomeLeader(context.Background(), &proto.BecomeLeaderRequest{Shard: 0, Term: term, ReplicationFactor: 1, FollowerMaps: map[string]*proto.EntryId{}}); err != nil {
		return nil, err
	}
	s := &Server{lc: lc, g: grpc.NewServer(), asg: server.NewStandaloneShardAssignmentDispatcher(1)}
	proto.RegisterOxiaClientServer(s.g, s)
	if s.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	go s.g.Serve(s.l)
	return s, nil
}
func (s *Server) Addr() string { return s.l.Addr().String() }

func (s *Server) GetShardAssignments(r *proto.ShardAssignmentsRequest, st proto.OxiaClient_GetShardAssignmentsServer) error {
	return s.asg.RegisterForUpdates(r, st)
}
func (s *Server) Write(ctx context.Context, w *proto.WriteRequest) (*proto.WriteResponse, error) {
	return s.lc.WriteBlock(ctx, w)
}
func (s *Server) WriteStream(st proto.OxiaClient_WriteStreamServer) error {
	md, _ := metadata.FromIncomingContext(st.Context())
	if v := md.Get(constant.MetadataShardId); len(v) != 1 {
		return errors.New("no shard")
	} else if _, err := strconv.ParseInt(v[0], 10, 64); err != nil {
		return err
	}
	fin := make(chan error, 4)
	var mu sync.Mutex
	go func() {
		for {
			r, err := st.Recv()
			if err != nil {
				fin <- err
				return
			}
			s.lc.Write(st.Context(), r, concurrent.NewOnce(func(t *proto.WriteResponse) {
				mu.Lock()
				err := st.Send(t)
				mu.Unlock()
				if err != nil {
					select {
					case fin <- err:
					default:
					}
				}
			}, func(err error) {
				select {
				case fin <- err:
				default:
				}
			}))
		}
	}()
	select {
	case err := <-fin:
		return err
	case <-st.Context().Done():
		return st.Context().Err()
	}
}
func (s *Server) Read(r *proto.ReadRequest, st proto.OxiaClient_ReadServer) error {
	fin := make(chan error, 1)
	s.lc.Read(st.Context(), r, concurrent.NewBatchStreamOnce[*proto.GetResponse](1000, 2<<20, func(g *proto.GetResponse) int { return len(g.Value) },
		func(c []*proto.GetResponse) error { return st.Send(&proto.ReadResponse{Gets: c}) }, func(err error) { fin <- err }))
	return <-fin
}
func (s *Server) List(r *proto.ListRequest, st proto.OxiaClient_ListServer) error {
	fin := make(chan error, 1)
	s.lc.List(st.Context(), r, concurrent.NewBatchStreamOnce[string](1000, 2<<20, func(k string) int { return len(k) },
		func(c []string) error { return st.Send(&proto.ListResponse{Keys: c}) }, func(err error) { fin <- err }))
	return <-fin
}
func (s *Server) RangeScan(r *proto.RangeScanRequest, st proto.OxiaClient_RangeScanServer) error {
	fin := make(chan error, 1)
	s.lc.RangeScan(st.Context(), r, concurrent.NewBatchStreamOnce[*proto.GetResponse](1000, 2<<20, func(g *proto.GetResponse) int { return len(g.Value) },
		func(c []*proto.GetResponse) error { return st.Send(&proto.RangeScanResponse{Records: c}) }, func(err error) { fin <- err }))
	return <-fin
}
func (s *Server) GetNotifications(r *proto.NotificationsRequest, st proto.OxiaClient_GetNotificationsServer) error {
	fin := make(chan error, 1)
	s.lc.GetNotifications(st.Context(), r, concurrent.NewStreamOnce(func(b *proto.NotificationBatch) error { return st.Send(b) }, func(err error) {
		select {
		case fin <- err:
		default:
		}
	}))
	return <-fin
}
func (s *Server) CreateSession(_ context.Context, r *proto.CreateSessionRequest) (*proto.CreateSessionResponse, error) {
	return s.lc.CreateSession(r)
}
func (s *Server) KeepAlive(_ context.Context, r *proto.SessionHeartbeat) (*proto.KeepAliveResponse, error) {
	return &proto.KeepAliveResponse{}, s.lc.KeepAlive(r.SessionId)
}
func (s *Server) CloseSession(_ context.Context, r *proto.CloseSessionRequest) (*proto.CloseSessionResponse, error) {
	res, err := s.lc.CloseSession(r)
	if err != nil {
		fmt.Println("close", err)
	}
	if res == nil {
		res = &proto.CloseSessionResponse{}
	}
	return res, nil
}
