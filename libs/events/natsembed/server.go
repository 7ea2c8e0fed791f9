package natsembed

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Config is where the server keeps its data and listens.
type Config struct {
	Dir    string // made when absent
	Listen string // HOST:PORT; port 0 picks one; empty: 127.0.0.1:0
	Log    *slog.Logger
}

const (
	readyWait   = 10 * time.Second
	memoryBytes = 64 << 20 // for JetStream's memory streams, of which nova makes none
)

// Server is a running server.
type Server struct {
	server *server.Server
	once   sync.Once
}

// Start starts a server and returns when it takes connections.
func Start(cfg Config) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("start NATS: a folder is needed")
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("start NATS: listen address: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("start NATS: listen address %s: %w", cfg.Listen, err)
	}
	options := &server.Options{
		ServerName: "nova", Host: host, Port: int(port), JetStream: true, StoreDir: cfg.Dir,
		JetStreamMaxMemory: memoryBytes, NoSigs: true,
	}
	if port == 0 {
		options.Port = server.RANDOM_PORT
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("start NATS in %s: %w", cfg.Dir, err)
	}
	log := &logger{log: cfg.Log.With("part", "nats"), fatal: make(chan string, 1)}
	s.SetLoggerV2(log, false, false, false)
	s.Start() // returns once its listeners are up, or after a fatal line
	e := &Server{server: s}
	select {
	case why := <-log.fatal:
		e.Close()
		return nil, fmt.Errorf("start NATS on %s in %s: %s", cfg.Listen, cfg.Dir, why)
	default:
	}
	if !s.ReadyForConnections(readyWait) {
		e.Close()
		return nil, fmt.Errorf("start NATS on %s in %s: not ready within %v", cfg.Listen, cfg.Dir, readyWait)
	}
	return e, nil
}

// URL is where clients connect.
func (s *Server) URL() string { return s.server.ClientURL() }

// Close stops the server and waits until its files are closed. A second call does nothing.
func (s *Server) Close() {
	s.once.Do(func() {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	})
}
