package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"nova.internal/e2e/process"
)

// fleetOfProcesses is every service as a process of its own, over `nova infra`.
type fleetOfProcesses struct {
	t       *testing.T
	data    string
	env     []string
	stars   map[string]*process.Process
	gateway string
}

// startProcesses starts infra, placer, stars and gateway with a session timeout of 4 s.
func startProcesses(t *testing.T, stars int) *fleetOfProcesses {
	t.Helper()
	f := &fleetOfProcesses{t: t, data: t.TempDir(), stars: map[string]*process.Process{}}
	infra := f.start("nova", `NOVA_OXIA=(\S+) NOVA_OXIA_EPHEMERAL=(\S+) NOVA_NATS=(\S+)`, "infra",
		"--data", filepath.Join(f.data, "infra"), "--oxia", "127.0.0.1:0", "--oxia-ephemeral", "127.0.0.1:0", "--nats", "127.0.0.1:0")
	f.env = []string{"--oxia", infra[1], "--oxia-ephemeral", infra[2], "--oxia-session-timeout", "4s"}
	placer := f.start("placer", `"grpc":"([^"]+)"`, f.env...)
	f.env = append(f.env, "--placer", placer[1], "--nats", infra[3], "--standard-copies", f.copy("s"), "--express-copies", f.copy("a")+","+f.copy("b")+","+f.copy("c"))
	for i := range stars {
		f.startStar(fmt.Sprintf("star-%d", i+1))
	}
	f.gateway = f.start("gateway", `"grpc":"([^"]+)"`, append(f.env, "--http", "127.0.0.1:0")...)[1]
	return f
}

func (f *fleetOfProcesses) copy(name string) string {
	return "file://" + filepath.Join(f.data, "copies", name)
}

// start starts a service and waits for what it prints; it is stopped well when the test ends.
func (f *fleetOfProcesses) start(service, pattern string, args ...string) []string {
	f.t.Helper()
	p, err := process.Start(binaries[service], args...)
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := p.Await(30*time.Second, pattern)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.stop(service, p) })
	return m
}

func (f *fleetOfProcesses) stop(name string, p *process.Process) {
	if code, err := p.Stop(45 * time.Second); err != nil || code != 0 {
		f.t.Errorf("%s ended with %d, %v\n%s", name, code, err, p.Stderr())
	}
}

func (f *fleetOfProcesses) startStar(name string) {
	f.t.Helper()
	p, err := process.Start(binaries["sequencer"], append(f.env, "--star", name, "--location", "zone-"+name)...)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := p.Await(30*time.Second, `"msg":"serving"`); err != nil {
		f.t.Fatal(err)
	}
	f.stars[name] = p
	f.t.Cleanup(func() {
		if f.stars[name] == p {
			f.stop(name, p)
		}
	})
}

// killStar is kill -9 of one star.
func (f *fleetOfProcesses) killStar(name string) {
	f.stars[name].Kill()
	delete(f.stars, name)
}

// TestServicesAsProcessesSurviveTheDeathOfAStar runs each service as a process, kills a star under load
// and lets the producers go on: nothing acknowledged is lost, nothing repeated, and every stream is
// writable again once the dead star's session has ended.
func TestServicesAsProcessesSurviveTheDeathOfAStar(t *testing.T) {
	f := startProcesses(t, 3)
	c := dial(t, f.gateway)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := newWorkload(8)
	if err := w.create(ctx, c); err != nil {
		t.Fatal(err)
	}
	load, stop := context.WithCancel(ctx)
	written := make(chan []error, 1)
	go func() { written <- w.write(load, c, 1, 5*time.Millisecond) }()
	time.Sleep(time.Second)
	before := w.acknowledged()
	f.killStar("star-2")
	killed := time.Now()
	// Every stream is acknowledged again, whoever led it.
	goal := map[string]int{}
	for name, h := range w.histories {
		goal[name] = h.Acknowledged() + 20
	}
	for name, h := range w.histories {
		for h.Acknowledged() < goal[name] && time.Since(killed) < 30*time.Second {
			time.Sleep(20 * time.Millisecond)
		}
	}
	took := time.Since(killed)
	f.startStar("star-2") // under its old identity
	time.Sleep(500 * time.Millisecond)
	stop()
	for _, err := range <-written {
		t.Errorf("a producer had to give up: %v", err)
	}
	if err := w.check(ctx, c); err != nil {
		t.Error(err)
	}
	t.Logf("%d records before the kill, %d in all; all streams acknowledged 20 more %v after it", before, w.acknowledged(), took)
	if took > 4*time.Second+6*time.Second {
		t.Errorf("the streams were writable again only after %v, with a session timeout of 4 s", took)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		stars, err := c.Fleet(ctx)
		if err == nil && len(stars) == 3 && stars[1].GetStar().GetLocation() == "zone-star-2" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("fleet = %v, %v; want three stars with their locations", stars, err)
		}
	}
}
