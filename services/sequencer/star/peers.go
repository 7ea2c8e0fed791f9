package star

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// peers are the connections to other stars and to the placer, one an address, made when first needed.
type peers struct {
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

func (p *peers) conn(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[address]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient("passthrough:///"+address, api.DialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	if p.conns == nil {
		p.conns = map[string]*grpc.ClientConn{}
	}
	p.conns[address] = c
	return c, nil
}

func (p *peers) star(address string) (novav1.StarClient, error) {
	c, err := p.conn(address)
	if err != nil {
		return nil, err
	}
	return novav1.NewStarClient(c), nil
}

// keep closes the connections to every address that is not named.
func (p *peers) keep(addresses map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		if !addresses[address] {
			_ = c.Close() // nothing is using it that could go on
			delete(p.conns, address)
		}
	}
}

func (p *peers) close() { p.keep(nil) }

// resolveAt asks the placer.
func (p *peers) resolveAt(ctx context.Context, address string, r *novav1.ResolveRequest) (*novav1.ResolveResponse, error) {
	c, err := p.conn(address)
	if err != nil {
		return nil, err
	}
	return novav1.NewPlacerClient(c).Resolve(ctx, r)
}
