package oxiaembed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oxia-db/oxia/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Streams that would stay open for ever end with the server, and their clients learn that they may try again.
func TestCloseEndsOpenStreams(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir(), Notifications: true})
	raw := rawDial(t, s)
	shard := int64(0)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "shard-id", "0", "namespace", "default")
	assignments, err := raw.GetShardAssignments(ctx, &proto.ShardAssignmentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	notifications, err := raw.GetNotifications(ctx, &proto.NotificationsRequest{Shard: shard})
	if err != nil {
		t.Fatal(err)
	}
	writes, err := raw.WriteStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := writes.Send(&proto.WriteRequest{Shard: &shard, Puts: []*proto.PutRequest{{Key: "/k"}}}); err != nil {
		t.Fatal(err)
	}
	ends := map[string]func() error{
		"assignments":   func() error { _, err := assignments.Recv(); return err },
		"notifications": func() error { _, err := notifications.Recv(); return err },
		"writes":        func() error { _, err := writes.Recv(); return err },
	}
	for name, recv := range ends {
		if err := recv(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	begin := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > gracefulLimit {
		t.Errorf("close took %v: the streams were cut, and did not end", took)
	}
	for name, recv := range ends {
		err := recv()
		for err == nil { // notifications of the put
			err = recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s ended with %v", name, err)
		}
	}
}

// A client that asks and does not read holds a handler in the middle of a send.
func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir()})
	c := dial(t, s.Addr())
	for i := range 100 {
		put(t, c, fmt.Sprintf("/big/%d", i), strings.Repeat("x", 100<<10))
	}
	raw := rawDial(t, s)
	shard := int64(0)
	st, err := raw.RangeScan(t.Context(), &proto.RangeScanRequest{Shard: &shard, StartInclusive: "/big/", EndExclusive: "/big//"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Header(); err != nil { // it has begun; nothing is read
		t.Fatal(err)
	}
	begin := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > gracefulLimit+handlerLimit {
		t.Errorf("close took %v", took)
	}
}

// A write that is refused ends its stream, and the writes before it are answered first.
func TestARefusedWriteDoesNotTakeTheOthersWithIt(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir(), Sync: true})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "shard-id", "0", "namespace", "default")
	st, err := rawDial(t, s).WriteStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const good = 2 * maxUnanswered // more than may be under way
	shard := int64(0)
	go func() {
		for i := range good {
			_ = st.Send(&proto.WriteRequest{Shard: &shard, Puts: []*proto.PutRequest{{Key: fmt.Sprintf("/k/%d", i)}}})
		}
		_ = st.Send(&proto.WriteRequest{Shard: &shard, Puts: []*proto.PutRequest{{Key: storeOffsetKey}}})
	}()
	answers := 0
	for {
		if _, err = st.Recv(); err != nil {
			break
		}
		answers++
	}
	if answers != good || status.Code(err) != codes.InvalidArgument {
		t.Errorf("%d of %d writes before the refusal were answered; then: %v", answers, good, err)
	}
}
