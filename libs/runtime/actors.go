package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/oklog/run"
	"google.golang.org/grpc"
)

// Group is a set of actors of which the first to end ends all.
type Group = run.Group

// stopWait is how long a server waits for calls under way before it cuts them off.
const stopWait = 2 * time.Second

// Listen binds a TCP address; port 0 picks one.
func Listen(address string) (net.Listener, error) {
	lis, err := net.Listen("tcp", address)
	if err != nil {
		return nil, ExitError(ExitUsage, fmt.Errorf("listen on %s: %w", address, err))
	}
	return lis, nil
}

// Until is the actor that ends when ctx does.
func Until(ctx context.Context) (execute func() error, interrupt func(error)) {
	ctx, cancel := context.WithCancel(ctx)
	return func() error {
		<-ctx.Done()
		return nil
	}, func(error) { cancel() }
}

// GRPC is the actor that serves gRPC. It ends gracefully within a bound, then cuts off what is left.
func GRPC(lis net.Listener, server *grpc.Server) (execute func() error, interrupt func(error)) {
	return func() error { return server.Serve(lis) }, func(error) {
		done := make(chan struct{})
		go func() {
			server.GracefulStop()
			close(done)
		}()
		timer := time.NewTimer(stopWait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			server.Stop()
			<-done
		}
	}
}

// HTTP is the actor that serves HTTP.
func HTTP(lis net.Listener, handler http.Handler) (execute func() error, interrupt func(error)) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	return func() error {
			if err := server.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}, func(error) {
			ctx, cancel := context.WithTimeout(context.Background(), stopWait)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				_ = server.Close() // what is left is cut off
			}
		}
}
