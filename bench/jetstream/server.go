package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"nova.internal/bench/child"
)

// Role is the name under which Serve has to be among a program's roles.
const Role = "nats"

// node is what one server is started with.
type node struct {
	Name, Dir     string
	Port, Cluster int      // Cluster is 0 for a server on its own
	Routes        []string // of all nodes
	Synced        bool
}

const startWithin = 30 * time.Second

// Serve is the child role of one NATS server.
func Serve(config json.RawMessage, ready func(string)) error {
	var n node
	if err := json.Unmarshal(config, &n); err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, NoLog: true, NoSigs: true,
		JetStream: true, JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 20 << 30, StoreDir: n.Dir, SyncAlways: n.Synced,
	}
	if n.Cluster > 0 {
		opts.Cluster = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: n.Cluster}
		for _, route := range n.Routes {
			opts.Routes = append(opts.Routes, server.RoutesFromStr(route)...)
		}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(startWithin) {
		return errors.New("the server takes no connections")
	}
	ready(s.ClientURL())
	return nil
}

// Config says what JetStream is to be.
type Config struct {
	Dir    string // an empty folder on the disk under test
	Nodes  int    // as many as each stream has replicas: 1 or 3
	Synced bool
}

// Servers are running servers that form one JetStream.
type Servers struct {
	cfg   Config
	nodes []*child.Process
	nc    *nats.Conn
	js    jetstream.JetStream
}

// Start starts the servers and waits until JetStream answers.
func Start(ctx context.Context, cfg Config) (*Servers, error) {
	s := &Servers{cfg: cfg}
	if err := s.start(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start JetStream: %w", err)
	}
	return s, nil
}

func (s *Servers) start(ctx context.Context) error {
	ports, err := freePorts(2 * s.cfg.Nodes)
	if err != nil {
		return err
	}
	nodes := make([]node, s.cfg.Nodes)
	var routes []string
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		nodes[i] = node{Name: name, Dir: filepath.Join(s.cfg.Dir, name), Port: ports[2*i], Synced: s.cfg.Synced}
		if s.cfg.Nodes > 1 {
			nodes[i].Cluster = ports[2*i+1]
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[2*i+1]))
		}
	}
	for _, n := range nodes {
		n.Routes = routes
		p, err := child.Start(ctx, Role, n)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, p)
	}
	if s.nc, err = nats.Connect(s.nodes[0].Line); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.nc, jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithDefaultTimeout(startWithin))
	if err != nil {
		return err
	}
	return s.await(ctx)
}

// await waits until JetStream answers, which takes a cluster as long as an election.
func (s *Servers) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, done := context.WithTimeout(ctx, time.Second)
		_, err := s.js.AccountInfo(ask)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// Stop ends the servers. Their folders stay.
func (s *Servers) Stop() {
	if s.nc != nil {
		s.nc.Close()
	}
	for _, n := range s.nodes {
		n.Kill()
	}
}

// freePorts returns n loopback ports that nothing listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
