package oxiaembed

import (
	"context"
	"errors"
	"io"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oxia-db/oxia/common/concurrent"
	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
)

// maxUnanswered bounds the writes one stream has under way.
const maxUnanswered = 1024

// answer is what became of one write.
type answer struct {
	response *proto.WriteResponse
	err      error
}

// refuse says why a write must not reach the log; nil when it may.
func (f *front) refuse(r *proto.WriteRequest) error {
	if f.lowSpace.Load() {
		return errLowSpace
	}
	return refuseWrite(r)
}

// write starts a write that was not refused. tell runs on the shard's committer and must not block.
func (s *shard) write(ctx context.Context, r *proto.WriteRequest, tell func(answer)) {
	s.leader.Write(ctx, r, concurrent.NewOnce(
		func(response *proto.WriteResponse) { tell(answer{response: response}) },
		func(err error) { tell(answer{err: err}) }))
}

// Write is one write, waited for.
func (f *front) Write(ctx context.Context, r *proto.WriteRequest) (*proto.WriteResponse, error) {
	s, err := f.shard(r.Shard)
	if err != nil {
		return nil, err
	}
	if err := f.refuse(r); err != nil {
		return nil, err
	}
	told := make(chan answer, 1)
	s.write(ctx, r, func(a answer) { told <- a })
	select {
	case a := <-told:
		return a.response, a.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// WriteStream answers the writes of one client to one shard, in the order they came: the protocol has no
// other way to tell which answer belongs to which write.
//
// A goroutine of its own receives, so that the handler can leave when the server closes; it ends when the
// handler has, because gRPC then ends the receiving. Answers go through a channel with room for every write
// under way: a client that does not read holds up its own stream, and never the committer.
func (f *front) WriteStream(st proto.OxiaClient_WriteStreamServer) error {
	s, err := f.streamShard(st.Context())
	if err != nil {
		return err
	}
	ctx, cancel := f.stream(st)
	defer cancel()
	var (
		slots   = make(chan struct{}, maxUnanswered)
		answers = make(chan answer, maxUnanswered)
		ended   = make(chan error, 1) // told once, behind the last write
	)
	f.receivers.Go(func() { ended <- f.receive(ctx, st, s, slots, func(a answer) { answers <- a }) })

	var end error
	for receiving := true; receiving || len(slots) > 0; {
		select {
		case a := <-answers:
			<-slots
			if a.err != nil {
				return f.outcome(a.err)
			}
			if err := st.Send(a.response); err != nil {
				return err
			}
		case end = <-ended: // the end of the stream or a refusal; the writes before it are still answered
			receiving, ended = false, nil
		case <-ctx.Done():
			return f.outcome(ctx.Err())
		}
	}
	return f.outcome(end)
}

// receive starts each write of the stream and returns why there is no further one.
func (f *front) receive(ctx context.Context, st proto.OxiaClient_WriteStreamServer, s *shard, slots chan<- struct{}, tell func(answer)) error {
	for {
		r, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.refuse(r); err != nil {
			return err
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.write(ctx, r, tell)
	}
}

// streamShard reads from a stream's metadata which shard it writes to.
func (f *front) streamShard(ctx context.Context) (*shard, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if ns := md.Get(constant.MetadataNamespace); len(ns) > 0 && ns[0] != constant.DefaultNamespace {
		return nil, constant.ErrNamespaceNotFound
	}
	ids := md.Get(constant.MetadataShardId)
	if len(ids) != 1 {
		return nil, errNoShard
	}
	id, err := strconv.ParseInt(ids[0], 10, 64)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "oxiaembed: %q is no shard", ids[0])
	}
	return f.shard(&id)
}
