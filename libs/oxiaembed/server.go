package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server/kv"
)

const (
	// gracefulLimit is how long Close lets streams end by themselves, handlerLimit how long it waits for
	// handlers after their connections were cut, and closeLimit how long the shards may take.
	gracefulLimit = 2 * time.Second
	handlerLimit  = 3 * time.Second
	closeLimit    = 10 * time.Second

	maxMessageBytes = 16 << 20
	storeCacheMiB   = 16
)

// ErrClosed is what Healthy says after Close.
var ErrClosed = errors.New("oxiaembed: the server is closed")

// Server is a running Oxia server. It is safe for concurrent use.
type Server struct {
	config   Config
	listener net.Listener
	grpc     *grpc.Server
	front    *front
	health   *health.Server
	stores   kv.Factory

	end       context.CancelFunc // ends front.closing
	failed    chan struct{}      // a shard's log failed: look now
	served    chan struct{}      // Serve has returned
	watched   chan struct{}      // the watch has ended
	closeOnce sync.Once
	closeErr  error
}

// Start opens the folder, brings every shard up to its last answered write, and serves. When it returns, the
// server takes requests.
func Start(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("oxiaembed: %w", err)
	}
	if err := prepareFolder(c); err != nil {
		return nil, fmt.Errorf("oxiaembed: folder %s: %w", c.Dir, err)
	}
	s := &Server{
		config:  c,
		health:  health.NewServer(),
		failed:  make(chan struct{}, 1),
		served:  make(chan struct{}),
		watched: make(chan struct{}),
	}
	if err := s.openShards(); err != nil {
		return nil, fmt.Errorf("oxiaembed: folder %s: %w", c.Dir, err)
	}
	if s.listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, errors.Join(fmt.Errorf("oxiaembed: %w", err), s.closeShards())
	}
	s.serve()
	c.Logger.Info("oxia started", "address", s.Addr(), "dir", c.Dir, "shards", c.Shards, "sync", c.Sync)
	return s, nil
}

func (s *Server) openShards() (err error) {
	closing, end := context.WithCancel(context.Background())
	s.front, s.end = &front{closing: closing}, end
	s.stores, err = kv.NewPebbleKVFactory(&kv.FactoryOptions{
		DataDir:     filepath.Join(s.config.Dir, "db"),
		CacheSizeMB: storeCacheMiB,
	})
	if err != nil {
		return err
	}
	for id := range int64(s.config.Shards) {
		shard, err := openShard(s.config, id, s.stores, s.lookNow)
		if err != nil {
			return errors.Join(err, s.closeShards())
		}
		s.front.shards = append(s.front.shards, shard)
	}
	return nil
}

func (s *Server) serve() {
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.WaitForHandlers(true), // the store must not close under one
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	proto.RegisterOxiaClientServer(s.grpc, s.front)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	s.look(nil)
	go s.watch()
	go func() {
		defer close(s.served)
		if err := s.grpc.Serve(s.listener); err != nil {
			s.config.Logger.Error("oxia stopped serving", "error", err)
		}
	}()
}

// Addr is the address the server listens on, with its port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends every open stream, waits for the requests under way, and closes the shards. It is bounded by
// about 15 s in all and takes milliseconds in good order; a second call returns what the first did. Sessions
// are kept: they live on, with a whole timeout, when the folder is started again.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	s.health.Shutdown()
	s.end()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
		s.front.receivers.Wait()
	}()
	if !waited(stopped, gracefulLimit) {
		go s.grpc.Stop() // cuts the connections, and returns when the handlers have
		if !waited(stopped, handlerLimit) {
			// Closing the store under a handler would end the process.
			return errors.New("oxiaembed: close: requests do not end; the store was left open")
		}
	}
	<-s.served
	<-s.watched
	closed := make(chan struct{})
	var err error
	go func() {
		defer close(closed)
		err = s.closeShards()
	}()
	if !waited(closed, closeLimit) {
		return fmt.Errorf("oxiaembed: close: the shards do not end within %v", closeLimit)
	}
	if err != nil {
		return fmt.Errorf("oxiaembed: close: %w", err)
	}
	s.config.Logger.Info("oxia closed", "dir", s.config.Dir)
	return nil
}

// closeShards closes what is open, all shards at once.
func (s *Server) closeShards() error {
	s.end()
	errs := make([]error, len(s.front.shards))
	var wg sync.WaitGroup
	for i, shard := range s.front.shards {
		wg.Go(func() { errs[i] = shard.close() })
	}
	wg.Wait()
	return errors.Join(append(errs, s.stores.Close())...)
}

func waited(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
