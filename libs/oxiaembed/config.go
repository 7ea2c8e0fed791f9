package oxiaembed

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Config says where and how a Server runs. Only Dir has no default.
type Config struct {
	// Dir holds everything the server stores. It is created when absent. A folder keeps the number of shards
	// it was made with.
	Dir string
	// Listen is the address to serve on; "127.0.0.1:0" when empty.
	Listen string
	// AllowRemote permits a Listen address that is not loopback. The server knows neither TLS nor
	// authentication: whoever reaches it can read and change everything.
	AllowRemote bool
	// Shards is the number of shards, 1 to 64; 1 when zero. A client has one session in each.
	Shards int
	// Sync makes every write durable on disk before it is answered. Without it a kill of the process loses
	// nothing, and a crash of the machine the last moments.
	Sync bool
	// Notifications records every change for clients that watch. Every client is told every change.
	Notifications bool
	// MinFreeBytes is the free space below which Start fails and writes are refused, so that the store is
	// never caught by a full disk in the middle of its own work, which it answers by ending the process.
	// 128 MiB when zero.
	MinFreeBytes int64
	// Logger takes this package's own lines; slog.Default() when nil.
	Logger *slog.Logger

	gapTimeout time.Duration // for tests: orderlog's, its default when zero
}

const maxShards = 64

func (c Config) withDefaults() (Config, error) {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Shards == 0 {
		c.Shards = 1
	}
	if c.MinFreeBytes == 0 {
		c.MinFreeBytes = 128 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Dir == "":
		return c, errors.New("no folder is given")
	case c.Shards < 1 || c.Shards > maxShards:
		return c, fmt.Errorf("%d shards: 1 to %d are possible", c.Shards, maxShards)
	case c.MinFreeBytes < 0:
		return c, fmt.Errorf("minimum free space of %d bytes is negative", c.MinFreeBytes)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c, fmt.Errorf("listen address: %w", err)
	}
	if !c.AllowRemote && !loopback(host) {
		return c, fmt.Errorf("listen address %q is not loopback, and the server has no authentication: "+
			"set AllowRemote to permit it", c.Listen)
	}
	return c, nil
}

// loopback tells whether only this machine can reach host. A name other than localhost is not looked up:
// what it means may change.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
