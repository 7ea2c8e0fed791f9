package coordtest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and can cut or stall the wire. It ends with its test.
type Proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	conns   map[net.Conn]bool
	mode    mode
	changed chan struct{} // closed when mode changes
	work    sync.WaitGroup
}

type mode int

const (
	passing mode = iota
	cut
	stalled
)

// NewProxy forwards to target, HOST:PORT.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
	p.work.Go(p.accept)
	t.Cleanup(p.end)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut breaks every connection and refuses new ones, until Mend.
func (p *Proxy) Cut() { p.set(cut) }

// Stall keeps connections open and lets nothing pass, until Mend: a partition that nobody is told of.
func (p *Proxy) Stall() { p.set(stalled) }

// Mend lets everything pass again.
func (p *Proxy) Mend() { p.set(passing) }

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
	if m == cut {
		p.closeAll()
	}
}

func (p *Proxy) closeAll() {
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) end() {
	_ = p.listener.Close()
	p.set(cut)
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c) })
	}
}

// own registers a connection, so that a cut closes it.
func (p *Proxy) own(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == cut {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) disown(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	if !p.own(client) {
		return
	}
	defer p.disown(client)
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil || !p.own(server) {
		return
	}
	defer p.disown(server)
	var both sync.WaitGroup
	both.Go(func() { p.forward(client, server) })
	both.Go(func() { p.forward(server, client) })
	both.Wait()
}

func (p *Proxy) forward(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.pass()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the wire is stalled.
func (p *Proxy) pass() {
	for {
		p.mu.Lock()
		m, changed := p.mode, p.changed
		p.mu.Unlock()
		if m != stalled {
			return
		}
		<-changed
	}
}
