package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// Config says where a fleet is found.
type Config struct {
	// Gateway is the address, host:port, of a gateway, or with Direct of any gateway or star.
	Gateway string
	// Direct makes producers and readers talk to the leading stars themselves. The stars' advertised
	// addresses must be reachable from here.
	Direct bool
	// Stars are addresses at which Direct may begin when no gateway says who leads. With them Gateway may
	// be empty; the operator's calls need one.
	Stars []string
	// Log gets what is worth knowing about reopens, at debug level. Nil: nothing is logged.
	Log *slog.Logger
	// DialOptions are added to those of every nova client.
	DialOptions []grpc.DialOption
}

// Client is a connection to one fleet. It is safe for concurrent use.
type Client struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	conns   map[string]*grpc.ClientConn // by address
	holders map[string]target           // Direct: who led a stream when last seen
	closed  bool
}

// ErrClosed is the answer of a client, producer or reader that was closed.
var ErrClosed = errors.New("closed")

// Dial prepares a client; connections are made when they are first needed, so an unreachable gateway
// shows at the first call.
func Dial(_ context.Context, cfg Config) (*Client, error) {
	if cfg.Gateway != "" || !cfg.Direct || len(cfg.Stars) == 0 {
		if _, _, err := net.SplitHostPort(cfg.Gateway); err != nil {
			return nil, fmt.Errorf("gateway address %q is not host:port: %w", cfg.Gateway, err)
		}
	}
	for _, star := range cfg.Stars {
		if _, _, err := net.SplitHostPort(star); err != nil {
			return nil, fmt.Errorf("star address %q is not host:port: %w", star, err)
		}
	}
	c := &Client{cfg: cfg, log: cfg.Log, conns: map[string]*grpc.ClientConn{}, holders: map[string]target{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close ends the client's connections. Close producers and readers first: what they have open breaks.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	clear(c.conns)
	return errors.Join(errs...)
}

// conn returns the one connection to address. A star that is gone costs an idle entry.
func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	opts := append(api.DialOptions(),
		// A star that restarts is back within seconds: gRPC's own pause of up to two minutes would
		// outlast every deadline here.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		// A following reader may wait for hours; without pings it would not notice that its peer is gone.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	conn, err := grpc.NewClient("passthrough:///"+address, append(opts, c.cfg.DialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	c.conns[address] = conn
	return conn, nil
}

// errNoGateway is the answer to what only a gateway can do.
var errNoGateway = errors.New("this client knows no gateway: give it the address of one")

// gateway is the connection to the gateway.
func (c *Client) gateway() (*grpc.ClientConn, error) {
	if c.cfg.Gateway == "" {
		return nil, errNoGateway
	}
	return c.conn(c.cfg.Gateway)
}

func (c *Client) streams(address string) (novav1.StreamsClient, error) {
	conn, err := c.conn(address)
	if err != nil {
		return nil, err
	}
	return novav1.NewStreamsClient(conn), nil
}

// remember notes who leads stream, for the next open in Direct mode.
func (c *Client) remember(stream string, t target) {
	if !c.cfg.Direct || t.address == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders[stream] = t
}

// forget drops the memory of stream's holder when it is the one at address, which failed.
func (c *Client) forget(stream, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders[stream].address == address {
		delete(c.holders, stream)
	}
}

func (c *Client) holder(stream string) (target, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.holders[stream]
	return t, ok
}
