package natsembed_test

import (
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"nova.internal/libs/events/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerListensOnLoopbackUnlessTold(t *testing.T) {
	s, err := natsembed.Start(natsembed.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
		t.Errorf("URL %s", s.URL())
	}
}

func TestAStartThatCannotWorkIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, cfg := range map[string]natsembed.Config{
		"a port that is taken":    {Dir: t.TempDir(), Listen: taken.Addr().String()},
		"an address without port": {Dir: t.TempDir(), Listen: "127.0.0.1"},
		"a port out of range":     {Dir: t.TempDir(), Listen: "127.0.0.1:70000"},
		"no folder":               {},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := natsembed.Start(cfg); err == nil {
				s.Close()
				t.Error("it started")
			}
		})
	}
}
