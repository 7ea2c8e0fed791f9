package events_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/events"
	"nova.internal/libs/events/natsembed"
)

// proxy stands between a publisher and NATS. While it is deaf it swallows what NATS answers.
type proxy struct {
	t      *testing.T
	lis    net.Listener
	server string

	mu    sync.Mutex
	deaf  bool
	sent  bytes.Buffer // what the publisher said
	conns []net.Conn
	ends  sync.WaitGroup
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, lis: lis, server: server}
	p.ends.Go(p.accept)
	t.Cleanup(func() {
		_ = lis.Close()
		p.cut()
		p.ends.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.lis.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.ends.Go(func() { p.pipe(server, client, func(b []byte) bool { p.sent.Write(b); return true }) })
		p.ends.Go(func() { p.pipe(client, server, func([]byte) bool { return !p.deaf }) })
	}
}

// pipe passes on what pass lets through; pass is called with the lock held.
func (p *proxy) pipe(to, from net.Conn, pass func([]byte) bool) {
	defer to.Close()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		goes := pass(b[:n])
		p.mu.Unlock()
		if goes {
			if _, err := io.Copy(to, bytes.NewReader(b[:n])); err != nil {
				return
			}
		}
	}
}

func (p *proxy) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// publishes counts how often a message went out under that id.
func (p *proxy) publishes(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Count(p.sent.Bytes(), []byte("Nats-Msg-Id: "+id+"\r\n"))
}

func TestAnEventWhoseAnswerWasLostIsSentAgainAndKeptOnce(t *testing.T) {
	s := startNATS(t, natsembed.Config{Dir: t.TempDir()})
	between := newProxy(t, address(t, s))
	p := newPublisher(t, "nats://"+between.lis.Addr().String(), events.Config{})
	stands := func(n int) func() bool {
		return func() bool { return len(epochs(t, s.URL(), events.Filter{})) == n }
	}
	p.Publish(bumped(1))
	eventually(t, stands(1))

	between.setDeaf(true)
	lost := bumped(2)
	lost.ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	p.Publish(lost)
	p.Publish(bumped(3))
	eventually(t, stands(2)) // JetStream has it, and the publisher does not know
	between.cut()
	between.setDeaf(false)
	mustClose(t, p)
	if diff := cmp.Diff(upTo(3), epochs(t, s.URL(), events.Filter{})); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
	if n := between.publishes(lost.ID); n < 2 {
		t.Errorf("the event went out %d times: its answer was not lost", n)
	}
}
