package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/oklog/run"
	"google.golang.org/grpc"
)

// Group is a set of actors of which the first to end ends all. Run returns once all have ended, with
// what the first one returned.
type Group = run.Group

const (
	// stopWait is how long a server waits for calls under way before it cuts them off.
	stopWait = 2 * time.Second
	// cutWait is how long a call that was cut off may go on before its server ends without it.
	cutWait = time.Second
)

// Until is the actor that ends when ctx does.
func Until(ctx context.Context) (execute func() error, interrupt func(error)) {
	ctx, cancel := context.WithCancel(ctx)
	return func() error {
		<-ctx.Done()
		return nil
	}, func(error) { cancel() }
}

// GRPC is the actor that serves gRPC. When interrupted it takes no more calls, waits for those under way
// within a bound, and cuts off what is left. Its interrupt returns at once, so that the servers of a
// group stop side by side.
func GRPC(lis net.Listener, server *grpc.Server) (execute func() error, interrupt func(error)) {
	return stoppable(func() error { return server.Serve(lis) }, func() error {
		ended := make(chan struct{})
		go func() { // ends with the last call
			server.GracefulStop()
			close(ended)
		}()
		if !within(stopWait, ended) {
			go server.Stop()
			if !within(cutWait, ended) {
				return fmt.Errorf("stop serving gRPC on %s: a call did not end when it was cut off", lis.Addr())
			}
		}
		return nil
	})
}

// HTTP is the actor that serves HTTP, and stops as GRPC does. A response has no time bound, since some
// are followed; reading a request has.
func HTTP(lis net.Listener, handler http.Handler) (execute func() error, interrupt func(error)) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	return stoppable(func() error {
		if err := server.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopWait)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			return server.Close() // what is left is cut off
		}
		return nil
	})
}

// stoppable makes an actor of a server: execute ends with serve, or once stop has ended. stop runs in
// either case, since a server whose listener broke still has connections.
func stoppable(serve, stop func() error) (execute func() error, interrupt func(error)) {
	interrupted := make(chan struct{})
	execute = func() error {
		served := make(chan error, 1)
		go func() { served <- serve() }() // ends in stop, or soon after
		select {
		case err := <-served:
			return errors.Join(err, stop())
		case <-interrupted:
		}
		if err := stop(); err != nil {
			return err
		}
		return <-served
	}
	return execute, func() func(error) {
		once := sync.OnceFunc(func() { close(interrupted) })
		return func(error) { once() }
	}()
}

// within waits for done for at most d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
