package oxiaembed

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oxia-db/oxia/proto"
)

// rawDial returns Oxia's protocol without its client.
func rawDial(t testing.TB, s *Server) proto.OxiaClientClient {
	return proto.NewOxiaClientClient(connect(t, s))
}

func connect(t testing.TB, s *Server) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func TestSeveralShardsServeOneKeySpace(t *testing.T) {
	const shards, rows = 3, 300
	cfg := Config{Dir: t.TempDir(), Shards: shards, Sync: true}
	s := start(t, cfg)
	c := dial(t, s.Addr())
	for i := range rows {
		put(t, c, fmt.Sprintf("/spread/%03d", i), fmt.Sprint(i))
		put(t, c, fmt.Sprintf("/owned/%03d", i), fmt.Sprint(i), oxia.Ephemeral())
		put(t, c, fmt.Sprintf("/together/%03d", i), fmt.Sprint(i), oxia.PartitionKey("one"))
	}
	check := func(c oxia.SyncClient) {
		t.Helper()
		for i := range rows {
			want(t, c, fmt.Sprintf("/spread/%03d", i), fmt.Sprint(i))
		}
		if got := len(list(t, c, "/spread")); got != rows {
			t.Errorf("the list over all shards has %d rows", got)
		}
		next := 0
		for row := range c.RangeScan(t.Context(), "/together/", "/together//", oxia.PartitionKey("one")) {
			if row.Err != nil || row.Key != fmt.Sprintf("/together/%03d", next) {
				t.Fatalf("scan of one partition: %q, %v; want row %d", row.Key, row.Err, next)
			}
			next++
		}
		if next != rows {
			t.Errorf("the scan of one partition gave %d rows", next)
		}
	}
	check(c)

	raw := rawDial(t, s)
	for shard := range int64(shards) {
		if got := len(rawList(t, raw, shard, "/spread")); got < rows/shards/2 {
			t.Errorf("shard %d has %d of %d rows: they are not spread", shard, got, rows)
		}
		if got := len(rawList(t, raw, shard, sessionPrefix)); got != 1 {
			t.Errorf("shard %d has %d sessions of one client", shard, got)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	d := dial(t, s.Addr())
	if got := list(t, d, "/owned"); len(got) != 0 {
		t.Errorf("%d rows outlived their client's sessions", len(got))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(dial(t, start(t, cfg).Addr()))
}

func rawList(t testing.TB, c proto.OxiaClientClient, shard int64, folder string) []string {
	t.Helper()
	st, err := c.List(t.Context(), &proto.ListRequest{Shard: &shard, StartInclusive: folder + "/", EndExclusive: folder + "//"})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for {
		r, err := st.Recv()
		if err != nil {
			return keys // the stream's end; a failure shows as missing keys
		}
		keys = append(keys, r.Keys...)
	}
}

// The ranges are those of Oxia's own standalone server, so that the client finds each key, and a folder
// could be read by either.
func TestShardsDivideTheHashesAsOxiaDoes(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir(), Shards: 3})
	st, err := rawDial(t, s).GetShardAssignments(t.Context(), &proto.ShardAssignmentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := st.Recv()
	if err != nil {
		t.Fatal(err)
	}
	type shard struct {
		ID       int64
		Leader   string
		Min, Max uint32
	}
	var got []shard
	for _, a := range r.Namespaces["default"].Assignments {
		got = append(got, shard{a.Shard, a.Leader, a.GetInt32HashRange().MinHashInclusive, a.GetInt32HashRange().MaxHashInclusive})
	}
	all := []shard{
		{0, s.Addr(), 0, 1431655765},
		{1, s.Addr(), 1431655766, 2863311531},
		{2, s.Addr(), 2863311532, 4294967295},
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
}
