package gateway

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"nova.internal/libs/api"
)

// unusedFor is how long a connection to a star that is not in the registry is kept without a call: it may
// have been named by a peer before this gateway's snapshot has it.
const unusedFor = 10 * time.Second

// conns are the connections to stars and to the placer, one an address, made when first needed.
type conns struct {
	mu     sync.Mutex
	conns  map[string]*conn
	closed bool
}

type conn struct {
	*grpc.ClientConn
	calls int
	used  time.Time // when the last call ended
}

// get returns the connection to address and counts a call on it until done is called.
func (p *conns) get(address string) (c grpc.ClientConnInterface, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errStopping
	}
	entry := p.conns[address]
	if entry == nil {
		client, err := grpc.NewClient("passthrough:///"+address, append(api.DialOptions(),
			// A star that was restarted is to be found at once, not after gRPC's minutes of back-off.
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 2 * time.Second}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))...)
		if err != nil {
			return nil, nil, fmt.Errorf("connect to %s: %w", address, err)
		}
		if p.conns == nil {
			p.conns = map[string]*conn{}
		}
		entry = &conn{ClientConn: client}
		p.conns[address] = entry
	}
	entry.calls++
	return entry.ClientConn, sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		entry.calls--
		entry.used = time.Now()
	}), nil
}

// sweep closes the connections that have no call and whose address is not wanted any more. One with calls
// under way is left: a star that lost its session may still serve them.
func (p *conns) sweep(wanted map[string]bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		if !wanted[address] && c.calls == 0 && now.Sub(c.used) >= unusedFor {
			_ = c.Close() // it has no calls
			delete(p.conns, address)
		}
	}
}

// close closes all of them, whatever is under way.
func (p *conns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.conns {
		_ = c.Close() // its calls end with CANCELED
	}
	p.conns = nil
}
