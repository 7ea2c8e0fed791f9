package physical

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// GRPC is gRPC alone on loopback: nova's service, codec and options, and nothing behind them.
type GRPC struct {
	server *grpc.Server
	conn   *grpc.ClientConn
	done   chan error
	client novav1.StreamsClient
}

// nothing answers a Describe with an empty row and a Read with as many bytes as its limit says, in messages
// of messageBytes.
type nothing struct {
	novav1.UnimplementedStreamsServer
	payload []byte
}

func (nothing) Describe(context.Context, *novav1.DescribeRequest) (*novav1.StreamInfo, error) {
	return &novav1.StreamInfo{}, nil
}

func (n nothing) Read(req *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
	for left := int(req.GetLimit()); left > 0; left -= len(n.payload) {
		b := &novav1.ReadBatch{Count: 1, Records: n.payload[:min(left, len(n.payload))]}
		if err := call.Send(&novav1.ReadResponse{Batches: []*novav1.ReadBatch{b}}); err != nil {
			return err
		}
	}
	return nil
}

// StartGRPC starts a server and a client of it. A Read's messages carry messageBytes each.
func StartGRPC(messageBytes int) (*GRPC, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &GRPC{server: grpc.NewServer(api.ServerOptions()...), done: make(chan error, 1)}
	novav1.RegisterStreamsServer(g.server, nothing{payload: Noise(messageBytes)})
	go func() { g.done <- g.server.Serve(l) }()
	if g.conn, err = grpc.NewClient("passthrough:///"+l.Addr().String(), api.DialOptions()...); err != nil {
		g.server.Stop()
		return nil, errors.Join(err, <-g.done)
	}
	g.client = novav1.NewStreamsClient(g.conn)
	return g, nil
}

// Stop ends server and client.
func (g *GRPC) Stop() error {
	err := g.conn.Close()
	g.server.Stop()
	return errors.Join(err, <-g.done)
}

// Receive receives so many bytes on one stream.
func (g *GRPC) Receive(ctx context.Context, bytes int64) (Moved, error) {
	began := time.Now()
	call, err := g.client.Read(ctx, &novav1.ReadRequest{Limit: uint64(bytes)})
	if err != nil {
		return Moved{}, err
	}
	var got int64
	for {
		m, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return Moved{got, time.Since(began)}, nil
		}
		if err != nil {
			return Moved{}, err
		}
		for _, b := range m.GetBatches() {
			got += int64(len(b.GetRecords()))
		}
	}
}

// RoundTrips makes n small calls, one after the other, and returns how long each took.
func (g *GRPC) RoundTrips(ctx context.Context, n int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if _, err := g.client.Describe(ctx, &novav1.DescribeRequest{}); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	return took, nil
}
