package oxiaembed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func dial(t testing.TB, addr string, options ...oxia.ClientOption) oxia.SyncClient {
	t.Helper()
	options = append([]oxia.ClientOption{oxia.WithBatchLinger(0), oxia.WithRequestTimeout(5 * time.Second), oxia.WithSessionTimeout(5 * time.Second)}, options...)
	c, err := oxia.NewSyncClient(addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t testing.TB, c oxia.SyncClient, key, value string, options ...oxia.PutOption) {
	t.Helper()
	if _, _, err := c.Put(t.Context(), key, []byte(value), options...); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func want(t testing.TB, c oxia.SyncClient, key, value string) {
	t.Helper()
	if _, got, _, err := c.Get(t.Context(), key); err != nil || string(got) != value {
		t.Fatalf("get %s = %q, %v; want %q", key, got, err, value)
	}
}

func TestARestartKeepsRowsAndTheirVersions(t *testing.T) {
	dir := t.TempDir()
	for life := range 4 {
		s, err := Start(Config{Dir: dir, Sync: life%2 == 0, Notifications: true})
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, s.Addr())
		for i := range life * 50 {
			want(t, c, fmt.Sprintf("/row/%d", i), fmt.Sprint("v", i))
		}
		for i := life * 50; i < (life+1)*50; i++ {
			put(t, c, fmt.Sprintf("/row/%d", i), fmt.Sprint("v", i))
		}
		_, _, version, err := c.Get(t.Context(), "/row/0")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Put(t.Context(), "/row/0", []byte("v0"), oxia.ExpectedVersionId(version.VersionId)); err != nil {
			t.Fatalf("compare-and-set in life %d: %v", life, err)
		}
		if err := errors.Join(c.Close(), s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyClientsLoseNoPut has writers race on keys of their own, with and without sessions, and on one
// compare-and-set register: what made Oxia's own standalone server stop for good.
func TestManyClientsLoseNoPut(t *testing.T) {
	const clients, puts = 12, 500
	s := start(t, Config{Dir: t.TempDir(), Sync: true})
	var wins atomic.Int64
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := dial(t, s.Addr())
			defer c.Close()
			for i := range puts {
				var options []oxia.PutOption
				if i%3 == 0 {
					options = append(options, oxia.Ephemeral())
				}
				if _, _, err := c.Put(t.Context(), fmt.Sprintf("/c/%d/%d", n, i), []byte("v"), options...); err != nil {
					t.Errorf("client %d, put %d: %v", n, i, err)
					return
				}
				if i%5 == 0 {
					var at oxia.PutOption = oxia.ExpectedRecordNotExists()
					if _, _, v, err := c.Get(t.Context(), "/register"); err == nil {
						at = oxia.ExpectedVersionId(v.VersionId)
					}
					switch _, _, err := c.Put(t.Context(), "/register", []byte("v"), at); {
					case err == nil:
						wins.Add(1)
					case !errors.Is(err, oxia.ErrUnexpectedVersionId):
						t.Errorf("register: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	c := dial(t, s.Addr())
	defer c.Close()
	_, _, v, err := c.Get(t.Context(), "/register")
	if err != nil || v.ModificationsCount != wins.Load()-1 {
		t.Errorf("the register was set %d times by its own count, %d times by its winners (%v)", v.ModificationsCount+1, wins.Load(), err)
	}
	durable := 0
	for n := range clients {
		keys, err := c.List(t.Context(), fmt.Sprintf("/c/%d/", n), fmt.Sprintf("/c/%d/\xff", n))
		if err != nil {
			t.Fatal(err)
		}
		durable += len(keys)
	}
	if each := puts - (puts+2)/3; durable != clients*each {
		t.Errorf("%d durable rows, want %d: the clients' sessions are closed", durable, clients*each)
	}
}

func TestASessionExpiresWhileOthersWrite(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir()})
	writing, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for n := range 4 {
		others.Go(func() {
			c := dial(t, s.Addr())
			defer c.Close()
			for i := 0; writing.Err() == nil; i++ {
				var options []oxia.PutOption
				if n%2 == 0 {
					options = append(options, oxia.Ephemeral())
				}
				if _, _, err := c.Put(t.Context(), fmt.Sprintf("/others/%d/%d", n, i%100), []byte("v"), options...); err != nil {
					t.Errorf("writer %d: %v", n, err)
					return
				}
			}
		})
	}
	// The owner is a process of its own, so that it can die without closing its session.
	owner, out := runChild(t, s.Addr(), "owner")
	awaitLine(t, out, "owns")
	c := dial(t, s.Addr())
	defer c.Close()
	want(t, c, "/owned", "v")
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed
	killed := time.Now()
	for {
		_, _, _, err := c.Get(t.Context(), "/owned")
		if errors.Is(err, oxia.ErrKeyNotFound) {
			break
		}
		if time.Since(killed) > 10*time.Second {
			t.Fatalf("the dead owner's row stands after %v (%v)", time.Since(killed), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(killed); took < time.Second {
		t.Errorf("the row went after %v, before its session of 3 s could have expired", took)
	}
	if keys, err := c.List(t.Context(), "/others/0/", "/others/0/\xff"); err != nil || len(keys) == 0 {
		t.Errorf("the living writers' rows: %d, %v", len(keys), err)
	}
}

func TestSeveralShardsServeOneKeySpace(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{Dir: dir, Shards: 3})
	c := dial(t, s.Addr())
	const rows = 300
	for i := range rows {
		put(t, c, fmt.Sprintf("/spread/%03d", i), fmt.Sprint(i))
		put(t, c, fmt.Sprintf("/together/%03d", i), fmt.Sprint(i), oxia.PartitionKey("one"), oxia.Ephemeral())
	}
	for i := range rows {
		want(t, c, fmt.Sprintf("/spread/%03d", i), fmt.Sprint(i))
	}
	keys, err := c.List(t.Context(), "/spread/", "/spread/\xff")
	if err != nil || len(keys) != rows {
		t.Errorf("list over all shards: %d, %v", len(keys), err)
	}
	next := 0
	for g := range c.RangeScan(t.Context(), "/together/", "/together/\xff", oxia.PartitionKey("one")) {
		if g.Err != nil || g.Key != fmt.Sprintf("/together/%03d", next) {
			t.Fatalf("scan of one partition: %q, %v; want row %d", g.Key, g.Err, next)
		}
		next++
	}
	if next != rows {
		t.Errorf("the scan of one partition gave %d rows", next)
	}
	if err := c.Close(); err != nil { // ends a session a shard
		t.Fatal(err)
	}
	d := dial(t, s.Addr())
	defer d.Close()
	if keys, err := d.List(t.Context(), "/together/", "/together/\xff"); err != nil || len(keys) != 0 {
		t.Errorf("rows of a closed session: %d, %v", len(keys), err)
	}
	for shard := range 3 {
		if entries, err := os.ReadDir(filepath.Join(dir, "log", fmt.Sprintf("shard-%d", shard))); err != nil || len(entries) == 0 {
			t.Errorf("shard %d has no log: %v", shard, err)
		}
	}
	if _, err := Start(Config{Dir: t.TempDir(), Shards: -1}); err == nil {
		t.Error("a negative number of shards was accepted")
	}
}

func TestAFolderKeepsItsNumberOfShards(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Start(Config{Dir: dir, Shards: 3}); err == nil {
		_ = s.Close()
		t.Error("a folder of 2 shards was opened with 3: rows would be looked for where they are not")
	}
}

func TestTwoServersInOneProcessKnowNothingOfEachOther(t *testing.T) {
	a, b := start(t, Config{Dir: t.TempDir()}), start(t, Config{Dir: t.TempDir(), Notifications: true})
	ca, cb := dial(t, a.Addr()), dial(t, b.Addr())
	defer ca.Close()
	defer cb.Close()
	put(t, ca, "/k", "a")
	put(t, cb, "/k", "b")
	want(t, ca, "/k", "a")
	want(t, cb, "/k", "b")
}

// TestKill9KeepsWhatWasAnswered kills a server under load, again and again on one folder.
func TestKill9KeepsWhatWasAnswered(t *testing.T) {
	const kills, writers = 5, 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var answered sync.Map // key -> last answered value
	total := 0
	for round := range kills + 1 {
		server, out := runChild(t, dir, "server")
		addr := strings.TrimPrefix(awaitLine(t, out, "serves "), "serves ")
		c := dial(t, addr)
		missing := 0
		answered.Range(func(key, value any) bool {
			_, got, _, err := c.Get(t.Context(), key.(string))
			// A later put of the same key may have landed without an answer.
			var n, m int
			_, _ = fmt.Sscan(value.(string), &n)
			_, _ = fmt.Sscan(string(got), &m)
			if err != nil || m < n {
				missing++
				t.Errorf("after kill %d: %s = %q, %v; %q was answered", round, key, got, err, value)
			}
			return missing < 5
		})
		if t.Failed() || round == kills {
			_ = c.Close()
			_ = server.Process.Kill()
			_ = server.Wait()
			break
		}
		var load sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		var puts atomic.Int64
		for n := range writers {
			load.Go(func() {
				for i := 1; ctx.Err() == nil; i++ {
					key, value := fmt.Sprintf("/w/%d/%d", n, i%200), fmt.Sprint(round*1_000_000+i)
					if _, _, err := c.Put(ctx, key, []byte(value)); err != nil {
						return
					}
					answered.Store(key, value)
					puts.Add(1)
				}
			})
		}
		time.Sleep(time.Duration(100+random.IntN(300)) * time.Millisecond)
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait() // it was killed
		stop()
		load.Wait()
		_ = c.Close()
		total += int(puts.Load())
	}
	if total < 100*kills {
		t.Errorf("%d puts were answered: the load was no load", total)
	}
	t.Logf("%d puts answered over %d kills", total, kills)
}

// TestALogThatRollsIsTrimmedAndATornTailIsCut writes more than the log keeps, so that segments are
// dropped behind a flushed store, then appends garbage as a crash in mid-write would.
func TestALogThatRollsIsTrimmedAndATornTailIsCut(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.Addr(), oxia.WithBatchLinger(time.Millisecond))
	large := strings.Repeat("x", 100<<10)
	logDir := filepath.Join(dir, "log", "shard-0")
	for i := range 2000 {
		put(t, c, fmt.Sprintf("/big/%04d", i), large)
	}
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	var bytes int64
	files, err := filepath.Glob(filepath.Join(logDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
			newest = max(newest, f)
		}
	}
	if written := int64(2000 * len(large)); bytes > written*3/4 {
		t.Errorf("the log holds %d bytes in %d files of %d written: nothing was trimmed", bytes, len(files), written)
	}
	f, err := os.OpenFile(newest, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("a torn record")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: dir})
	d := dial(t, again.Addr())
	defer d.Close()
	for _, i := range []int{0, 777, 1999} {
		want(t, d, fmt.Sprintf("/big/%04d", i), large)
	}
	put(t, d, "/after", "v")
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
		"no folder":               {Config{}, "folder"},
		"a file for a folder":     {Config{Dir: filepath.Join(file, "x")}, "not a directory"},
		"a busy address":          {Config{Dir: t.TempDir(), Listen: busy.Addr()}, "in use"},
		"an address for everyone": {Config{Dir: t.TempDir(), Listen: "0.0.0.0:0"}, "loopback"},
		"a disk without space":    {Config{Dir: t.TempDir(), MinFreeBytes: 1 << 60}, "free"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Start(tc.cfg)
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Start = %v, want an error with %q", err, tc.says)
			}
		})
	}
}

func TestTheServersOwnRowsAreOutOfReach(t *testing.T) {
	s := start(t, Config{Dir: t.TempDir()})
	c := dial(t, s.Addr())
	defer c.Close()
	put(t, c, "/k", "v", oxia.Ephemeral())
	if _, _, err := c.Put(t.Context(), "__oxia/session/x", []byte("v")); err == nil {
		t.Error("a row of the server's own was written")
	}
	if err := c.DeleteRange(t.Context(), "", "~/"); err == nil {
		t.Error("a range over the server's own rows was deleted")
	}
	if err := c.DeleteRange(t.Context(), "/", "/\xff"); err != nil {
		t.Errorf("a range of rows could not be deleted: %v", err)
	}
	put(t, c, "/k", "v") // a refused write has not ended the stream for good
}

func TestHealthFollowsTheServer(t *testing.T) {
	s, err := Start(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	r, err := healthpb.NewHealthClient(cc).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVING || s.Healthy(t.Context()) != nil {
		t.Errorf("health = %v, %v; %v", r, err, s.Healthy(t.Context()))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Healthy(t.Context()) == nil {
		t.Error("a closed server is healthy")
	}
}

// child is what the test binary does as another process: a server on a folder, or the owner of a row on
// the server at an address.
func child(arg string) int {
	if os.Getenv(childEnv+"_ROLE") == "owner" {
		c, err := oxia.NewSyncClient(arg, oxia.WithSessionTimeout(3*time.Second))
		if err == nil {
			_, _, err = c.Put(context.Background(), "/owned", []byte("v"), oxia.Ephemeral())
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("owns")
	} else {
		s, err := Start(Config{Dir: arg, Sync: true})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("serves " + s.Addr())
	}
	time.Sleep(2 * time.Minute) // it is killed long before
	return 0
}

func runChild(t *testing.T, arg, role string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+arg, childEnv+"_ROLE="+role)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may be dead already
	return cmd, bufio.NewScanner(stdout)
}

func awaitLine(t *testing.T, out *bufio.Scanner, prefix string) string {
	t.Helper()
	for out.Scan() {
		if strings.HasPrefix(out.Text(), prefix) {
			return out.Text()
		}
	}
	t.Fatalf("the child ended without saying %q", prefix)
	return ""
}
