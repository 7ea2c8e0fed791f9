package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api/novav1"
)

func TestListen(t *testing.T) {
	taken, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, port, _ := net.SplitHostPort(taken.Addr().String()); port == "0" {
		t.Errorf("port 0 was not turned into one: %s", taken.Addr())
	}
	tests := map[string]struct{ address, want string }{
		"a port that is taken":    {taken.Addr().String(), "another process has it"},
		"no port":                 {"127.0.0.1", "want HOST:PORT"},
		"nothing":                 {"", "want HOST:PORT"},
		"a port that is none":     {"127.0.0.1:http2go", "listen on 127.0.0.1:http2go"},
		"an address of elsewhere": {"192.0.2.1:0", "listen on 192.0.2.1:0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			lis, err := Listen(tc.address)
			if err == nil {
				_ = lis.Close()
				t.Fatal("it was bound")
			}
			if !strings.Contains(err.Error(), tc.want) || ExitCode(err) != ExitUsage {
				t.Errorf("Listen = %v (exit %d), want %q and exit 2", err, ExitCode(err), tc.want)
			}
		})
	}
}

func TestAMissingHostIsLoopback(t *testing.T) {
	lis, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if ip := lis.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		t.Errorf("bound to %v", ip)
	}
}

func TestACallUnderWayEndsBeforeItsServerDoes(t *testing.T) {
	s := NewServer(quiet())
	begun, finish := make(chan struct{}), make(chan struct{})
	novav1.RegisterPlacerServer(s, placer{resolve: func(ctx context.Context) (*novav1.ResolveResponse, error) {
		close(begun)
		<-finish
		return &novav1.ResolveResponse{Designate: "a"}, ctx.Err()
	}})
	cc, stop := grpcServer(t, s)
	answered := make(chan error, 1)
	go func() {
		_, err := novav1.NewPlacerClient(cc).Resolve(context.Background(), &novav1.ResolveRequest{})
		answered <- err
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	select {
	case err := <-stopped:
		t.Fatalf("the server ended (%v) while a call was under way", err)
	case <-time.After(50 * time.Millisecond): // the group is at its end by now, or the test shows nothing
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestACallThatGoesOnIsCutOff(t *testing.T) {
	t.Parallel()
	s := NewServer(quiet())
	novav1.RegisterStreamsServer(s, streams{read: follow})
	cc, stop := grpcServer(t, s)
	read := follower(t, cc)
	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < stopWait || took > stopWait+cutWait {
		t.Errorf("the server took %v to stop, want its wait of %v", took, stopWait)
	}
	if _, err := read.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the follower was told %v, want UNAVAILABLE", err)
	}
}

func TestACallThatIgnoresBeingCutOffDoesNotHoldTheProcess(t *testing.T) {
	t.Parallel()
	s := NewServer(quiet())
	begun, finish := make(chan struct{}), make(chan struct{})
	novav1.RegisterPlacerServer(s, placer{resolve: func(context.Context) (*novav1.ResolveResponse, error) {
		close(begun)
		<-finish // deaf to its context
		return nil, nil
	}})
	cc, stop := grpcServer(t, s)
	answered := make(chan error, 1)
	go func() {
		_, err := novav1.NewPlacerClient(cc).Resolve(context.Background(), &novav1.ResolveRequest{})
		answered <- err
	}()
	<-begun
	began := time.Now()
	_ = stop() // the group returns its first error, which is that it was told to end
	if took := time.Since(began); took > stopWait+cutWait+time.Second {
		t.Errorf("the server took %v to stop", took)
	}
	close(finish)
	<-answered
}

func TestServersOfAGroupStopSideBySide(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	hang := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	var addrs []string
	stop := serve(t, func(g *Group) {
		for range 3 {
			lis, err := Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addrs = append(addrs, lis.Addr().String())
			g.Add(HTTP(lis, hang))
		}
	})
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	var bodies []io.ReadCloser
	for _, addr := range addrs {
		r, err := client.Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		bodies = append(bodies, r.Body)
	}
	began := time.Now()
	_ = stop()
	if took := time.Since(began); took < stopWait || took > 2*stopWait {
		t.Errorf("three busy servers took %v to stop, want one wait of %v", took, stopWait)
	}
	for _, body := range bodies {
		if _, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a response under way ended with %v, want it cut off", err)
		}
	}
}

func TestAServerWhoseListenerBreaksEndsItsCallsAndTheGroup(t *testing.T) {
	lis, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(quiet())
	novav1.RegisterStreamsServer(s, streams{read: follow})
	var g Group
	g.Add(GRPC(lis, s))
	ended := make(chan error, 1)
	go func() { ended <- g.Run() }()
	read := follower(t, dial(t, lis.Addr().String()))
	_ = lis.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the group ended with %v, want why its server did", err)
	}
	if _, err := read.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the follower was told %v, want UNAVAILABLE", err)
	}
}

// follow sends one answer and goes on until it is cut off, as a followed read does.
func follow(out grpc.ServerStreamingServer[novav1.ReadResponse]) error {
	if err := out.Send(&novav1.ReadResponse{End: 1}); err != nil {
		return err
	}
	<-out.Context().Done()
	return out.Context().Err()
}

// follower is a call to follow that is under way.
func follower(t *testing.T, cc *grpc.ClientConn) grpc.ServerStreamingClient[novav1.ReadResponse] {
	t.Helper()
	read, err := novav1.NewStreamsClient(cc).Read(t.Context(), &novav1.ReadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read.Recv(); err != nil {
		t.Fatal(err)
	}
	return read
}
