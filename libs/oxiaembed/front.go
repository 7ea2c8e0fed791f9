package oxiaembed

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oxia-db/oxia/common/concurrent"
	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/common/sharding"
	"github.com/oxia-db/oxia/proto"
)

// Oxia's own bounds for one message of a streamed answer.
const (
	batchRows  = 1000
	batchBytes = 2 << 20
)

// front serves Oxia's public service over the shards. It answers no request of its own knowledge except where
// the shards are; sequence updates stay unimplemented with the sequence keys.
type front struct {
	proto.UnimplementedOxiaClientServer
	shards   []*shard
	lowSpace atomic.Bool     // writes are refused
	closing  context.Context // done when the server closes: every stream ends then
	// receivers are the goroutines that outlive their handler for a moment; see writeStream.
	receivers sync.WaitGroup
}

func (f *front) shard(id *int64) (*shard, error) {
	switch {
	case id == nil:
		return nil, errNoShard
	case *id < 0 || *id >= int64(len(f.shards)):
		return nil, constant.ErrNodeIsNotLeader
	}
	return f.shards[*id], nil
}

// stream returns a context for a streamed answer that also ends when the server closes.
func (f *front) stream(st grpc.ServerStream) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(st.Context())
	release := context.AfterFunc(f.closing, cancel)
	return ctx, func() { release(); cancel() }
}

// outcome replaces the error of a stream that was ended by the close, so that its client tries again.
func (f *front) outcome(err error) error {
	if err != nil && f.closing.Err() != nil {
		return errClosing
	}
	return err
}

// GetShardAssignments names every shard's range of hashes, as Oxia's standalone server divides them. The
// leader is the address that the client dialed, which also holds behind a port mapping.
func (f *front) GetShardAssignments(r *proto.ShardAssignmentsRequest, st proto.OxiaClient_GetShardAssignmentsServer) error {
	if r.Namespace != "" && r.Namespace != constant.DefaultNamespace {
		return constant.ErrNamespaceNotFound
	}
	md, _ := metadata.FromIncomingContext(st.Context())
	authority := md.Get(":authority")
	if len(authority) != 1 {
		return status.Error(constant.CodeInvalidStatus, "oxiaembed: the request has no authority")
	}
	var shards []*proto.ShardAssignment
	for _, s := range sharding.GenerateShards(0, uint32(len(f.shards))) {
		shards = append(shards, &proto.ShardAssignment{
			Shard:  s.Id,
			Leader: authority[0],
			ShardBoundaries: &proto.ShardAssignment_Int32HashRange{
				Int32HashRange: &proto.Int32HashRange{MinHashInclusive: s.Min, MaxHashInclusive: s.Max},
			},
		})
	}
	err := st.Send(&proto.ShardAssignments{Namespaces: map[string]*proto.NamespaceShardsAssignment{
		constant.DefaultNamespace: {ShardKeyRouter: proto.ShardKeyRouter_XXHASH3, Assignments: shards},
	}})
	if err != nil {
		return err
	}
	ctx, cancel := f.stream(st) // they never change; the client keeps the stream as its connection's pulse
	defer cancel()
	<-ctx.Done()
	return f.outcome(ctx.Err())
}

func (f *front) Read(r *proto.ReadRequest, st proto.OxiaClient_ReadServer) error {
	for _, g := range r.Gets {
		if err := refuseIndex(g.SecondaryIndexName); err != nil {
			return err
		}
	}
	return scan(f, r.Shard, st,
		func(g *proto.GetResponse) int { return len(g.Value) },
		func(rows []*proto.GetResponse) error { return st.Send(&proto.ReadResponse{Gets: rows}) },
		func(ctx context.Context, s *shard, cb concurrent.StreamCallback[*proto.GetResponse]) {
			s.leader.Read(ctx, r, cb)
		})
}

func (f *front) List(r *proto.ListRequest, st proto.OxiaClient_ListServer) error {
	if err := refuseIndex(r.SecondaryIndexName); err != nil {
		return err
	}
	return scan(f, r.Shard, st,
		func(key string) int { return len(key) },
		func(keys []string) error { return st.Send(&proto.ListResponse{Keys: keys}) },
		func(ctx context.Context, s *shard, cb concurrent.StreamCallback[string]) { s.leader.List(ctx, r, cb) })
}

func (f *front) RangeScan(r *proto.RangeScanRequest, st proto.OxiaClient_RangeScanServer) error {
	if err := refuseIndex(r.SecondaryIndexName); err != nil {
		return err
	}
	return scan(f, r.Shard, st,
		func(g *proto.GetResponse) int { return len(g.Value) },
		func(rows []*proto.GetResponse) error { return st.Send(&proto.RangeScanResponse{Records: rows}) },
		func(ctx context.Context, s *shard, cb concurrent.StreamCallback[*proto.GetResponse]) {
			s.leader.RangeScan(ctx, r, cb)
		})
}

// scan streams rows from a shard in batches. It returns only when the leader's goroutine is through, also
// when the client is gone: an iterator that is open when the store closes ends the process.
func scan[T any](f *front, id *int64, st grpc.ServerStream, size func(T) int, send func([]T) error,
	run func(context.Context, *shard, concurrent.StreamCallback[T])) error {
	s, err := f.shard(id)
	if err != nil {
		return err
	}
	ctx, cancel := f.stream(st)
	defer cancel()
	done := make(chan error, 1)
	run(ctx, s, concurrent.NewBatchStreamOnce(batchRows, batchBytes, size, send, func(err error) { done <- err }))
	return f.outcome(<-done)
}

func (f *front) GetNotifications(r *proto.NotificationsRequest, st proto.OxiaClient_GetNotificationsServer) error {
	s, err := f.shard(&r.Shard)
	if err != nil {
		return err
	}
	ctx, cancel := f.stream(st)
	defer cancel()
	done, failed := make(chan error, 1), make(chan error, 1)
	s.leader.GetNotifications(ctx, r, concurrent.NewStreamOnce(
		func(batch *proto.NotificationBatch) error {
			if ctx.Err() != nil {
				return nil
			}
			// A failed send is kept from the leader, which would report the end and go on reading the store.
			if err := st.Send(batch); err != nil {
				failed <- err
				cancel()
			}
			return nil
		},
		func(err error) { done <- err }))
	err = <-done
	select {
	case err = <-failed:
	default:
	}
	if err == nil {
		err = ctx.Err()
	}
	return f.outcome(err)
}

func (f *front) CreateSession(_ context.Context, r *proto.CreateSessionRequest) (*proto.CreateSessionResponse, error) {
	s, err := f.shard(&r.Shard)
	if err != nil {
		return nil, err
	}
	if f.lowSpace.Load() {
		return nil, errLowSpace
	}
	return s.leader.CreateSession(r)
}

func (f *front) KeepAlive(_ context.Context, r *proto.SessionHeartbeat) (*proto.KeepAliveResponse, error) {
	s, err := f.shard(&r.Shard)
	if err != nil {
		return nil, err
	}
	return &proto.KeepAliveResponse{}, s.leader.KeepAlive(r.SessionId)
}

// CloseSession deletes the session's rows. An unknown session has none: that is success.
func (f *front) CloseSession(_ context.Context, r *proto.CloseSessionRequest) (*proto.CloseSessionResponse, error) {
	s, err := f.shard(&r.Shard)
	if err != nil {
		return nil, err
	}
	if _, err := s.leader.CloseSession(r); err != nil && status.Code(err) != constant.CodeSessionNotFound {
		return nil, err
	}
	return &proto.CloseSessionResponse{}, nil
}
