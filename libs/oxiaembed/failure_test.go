package oxiaembed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"github.com/oxia-db/oxia/proto"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"nova.internal/libs/oxiaembed/internal/orderlog"
)

// wantNoStart starts on cfg and wants one error that has says in it.
func wantNoStart(t *testing.T, cfg Config, says string) {
	t.Helper()
	s, err := Start(cfg)
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("Start = %v, want an error with %q", err, says)
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	busy := start(t, Config{Dir: t.TempDir()})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cfg  Config
		says string
	}{
		"no folder":                    {Config{}, "no folder"},
		"a file for a folder":          {Config{Dir: filepath.Join(file, "x")}, "not a directory"},
		"a folder that is in use":      {Config{Dir: busy.config.Dir}, "lock"},
		"a busy address":               {Config{Dir: t.TempDir(), Listen: busy.Addr()}, "in use"},
		"an address for everyone":      {Config{Dir: t.TempDir(), Listen: "0.0.0.0:0"}, "not loopback"},
		"the same without a host":      {Config{Dir: t.TempDir(), Listen: ":0"}, "not loopback"},
		"a name that may be elsewhere": {Config{Dir: t.TempDir(), Listen: "db.example:0"}, "not loopback"},
		"no port":                      {Config{Dir: t.TempDir(), Listen: "127.0.0.1"}, "port"},
		"a disk without space":         {Config{Dir: t.TempDir(), MinFreeBytes: 1 << 60}, "free"},
		"a negative number of shards":  {Config{Dir: t.TempDir(), Shards: -1}, "-1 shards"},
		"too many shards":              {Config{Dir: t.TempDir(), Shards: 1000}, "1000 shards"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { wantNoStart(t, tc.cfg, tc.says) })
	}
	remote, err := Start(Config{Dir: t.TempDir(), Listen: "0.0.0.0:0", AllowRemote: true})
	if err != nil {
		t.Fatalf("an address for everyone, asked for: %v", err)
	}
	if err := remote.Close(); err != nil {
		t.Error(err)
	}
}

// Each damage gives one error from Start, and neither a panic nor the end of the process, which is how Oxia
// and its store answer some of them.
func TestStartOnADamagedFolder(t *testing.T) {
	only := func(t *testing.T, pattern string) string {
		t.Helper()
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		return slices.Min(files)
	}
	write := func(t *testing.T, path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		damage func(t *testing.T, dir string)
		says   string
	}{
		"the manifest is no JSON": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, manifestName), []byte("{"))
		}, manifestName},
		"the manifest is gone": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, manifestName)); err != nil {
				t.Fatal(err)
			}
		}, manifestName},
		"a later format": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, manifestName), []byte(`{"format":9,"shards":1}`))
		}, "format 9"},
		"the store's manifest is garbage": {func(t *testing.T, dir string) {
			write(t, only(t, filepath.Join(dir, "db/default/shard-0/MANIFEST-*")), []byte(strings.Repeat("garbage", 99)))
		}, "open shard 0"},
		"the store's manifest is gone": {func(t *testing.T, dir string) {
			if err := os.Remove(only(t, filepath.Join(dir, "db/default/shard-0/MANIFEST-*"))); err != nil {
				t.Fatal(err)
			}
		}, "open shard 0"},
		"a table of the store is garbage": {func(t *testing.T, dir string) {
			for _, f := range []string{only(t, filepath.Join(dir, "db/default/shard-0/*.sst"))} {
				info, err := os.Stat(f)
				if err != nil {
					t.Fatal(err)
				}
				write(t, f, []byte(strings.Repeat("x", int(info.Size()))))
			}
		}, "open shard 0"},
		"a table of the store is gone": {func(t *testing.T, dir string) {
			if err := os.Remove(only(t, filepath.Join(dir, "db/default/shard-0/*.sst"))); err != nil {
				t.Fatal(err)
			}
		}, "open shard 0"},
		"the log is a folder": {func(t *testing.T, dir string) {
			path := only(t, filepath.Join(dir, "log/shard-0/*.log"))
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
		"the log is gone": {func(t *testing.T, dir string) {
			if err := os.Remove(only(t, filepath.Join(dir, "log/shard-0/*.log"))); err != nil {
				t.Fatal(err)
			}
		}, orderlog.ErrBehind.Error()},
		"the store is gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "db")); err != nil {
				t.Fatal(err)
			}
			path := only(t, filepath.Join(dir, "log/shard-0/*.log"))
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			content[200] ^= 0xff // in an entry that only the store had no need of
			write(t, path, content)
		}, orderlog.ErrDamaged.Error()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, Config{Dir: dir, Sync: true})
			c := dial(t, s.Addr())
			for i := range 20 {
				put(t, c, "/k", strings.Repeat("v", i))
			}
			if err := errors.Join(c.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, dir)
			wantNoStart(t, Config{Dir: dir, Sync: true}, tc.says)
		})
	}
}

func TestTheServersOwnRowsAreOutOfReach(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	s := start(t, cfg)
	c := dial(t, s.Addr())
	put(t, c, "/k", "v", oxia.Ephemeral())
	if _, _, err := c.Put(t.Context(), "__oxia/session/x", []byte("v")); err == nil {
		t.Error("a row of the server's own was written")
	}
	if err := c.Delete(t.Context(), storeOffsetKey); err == nil {
		t.Error("a row of the server's own was deleted")
	}
	for _, r := range [][2]string{{"", "~/"}, {"__oxia/", "__oxia//"}, {"__oxia/session/", "__oxia/session//"}, {"/", ""}} {
		if err := c.DeleteRange(t.Context(), r[0], r[1]); err == nil {
			t.Errorf("the range from %q to %q takes in rows of the server's own and was deleted", r[0], r[1])
		}
	}
	if err := c.DeleteRange(t.Context(), "/", "//"); err != nil {
		t.Errorf("a range of rows was not deleted: %v", err)
	}
	if !gone(t, c, "/k") {
		t.Error("the row stands behind the deletion of its range")
	}
	put(t, c, "/k", "v") // a refused write has not ended the service
}

// Oxia checks a sequence key only when it applies the entry, and an entry that fails then fails at every later
// start as well.
func TestAWriteThatCannotBeAppliedIsNotLogged(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Sync: true}
	s := start(t, cfg)
	raw := rawDial(t, s)
	shard := int64(0)
	for name, p := range map[string]*proto.PutRequest{
		"sequence without partition": {Key: "/s", SequenceKeyDelta: []uint64{1}},
		"sequence of zero":           {Key: "/s", SequenceKeyDelta: []uint64{0}, PartitionKey: new("p")},
		"index":                      {Key: "/i", SecondaryIndexes: []*proto.SecondaryIndex{{IndexName: "a/b"}}},
	} {
		_, err := raw.Write(t.Context(), &proto.WriteRequest{Shard: &shard, Puts: []*proto.PutRequest{p}})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
	st, err := raw.List(t.Context(), &proto.ListRequest{Shard: &shard, SecondaryIndexName: new("a")})
	if err == nil {
		_, err = st.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a list through an index: %v", err)
	}
	if _, err := raw.Write(t.Context(), &proto.WriteRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a write without a shard: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
}

// checkHealth asks the gRPC health service.
func checkHealth(t *testing.T, s *Server) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	r, err := healthpb.NewHealthClient(connect(t, s)).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status
}

func TestHealthFollowsTheServer(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir(), Shards: 2})
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if got := checkHealth(t, s); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the health service says %v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Healthy(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed server says %v", err)
	}
}

// The log of one shard fails. Its writes are answered with an error, at once and not never; its reads and the
// other shard go on; and the server says so.
func TestAFailedLogIsSaidAndNeverWaitedFor(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir(), Shards: 2, gapTimeout: 50 * time.Millisecond})
	raw := rawDial(t, s)
	write := func(shard int64) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := raw.Write(ctx, &proto.WriteRequest{Shard: &shard, Puts: []*proto.PutRequest{{Key: "/k"}}})
		return err
	}
	for shard := range int64(2) {
		if err := write(shard); err != nil {
			t.Fatal(err)
		}
	}
	// An offset that the leader never gave out stands in for any failure: orderlog's tests have the others.
	s.front.shards[0].log.AppendAndSync(&proto.LogEntry{Offset: 1000}, func(error) {})
	until(t, 5*time.Second, "the server says that it is unhealthy", func() bool { return s.Healthy(t.Context()) != nil })
	if err := s.Healthy(t.Context()); !errors.Is(err, orderlog.ErrGap) {
		t.Errorf("it says %v", err)
	}
	until(t, 5*time.Second, "the health service says so", func() bool {
		return checkHealth(t, s) == healthpb.HealthCheckResponse_NOT_SERVING
	})
	for range 3 {
		if err := write(0); err == nil || status.Code(err) == codes.DeadlineExceeded {
			t.Errorf("a write to the failed shard: %v", err)
		}
	}
	if err := write(1); err != nil {
		t.Errorf("a write to the other shard: %v", err)
	}
	if got := rawList(t, raw, 0, ""); len(got) != 1 {
		t.Errorf("the failed shard lists %v", got)
	}
}
