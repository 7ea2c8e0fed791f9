// Package fleet is a whole nova fleet in one process: the very services that run as processes of their
// own, over an embedded Oxia and NATS, with files as copies.
//
//	         gateway  ◀── producers, readers, novactl
//	         /     \
//	   placer       star-1 … star-N ──▶ copies (files)
//	         \     /
//	oxia /nova, oxia /fleet, nats   (embedded)
//
// The process holds its data folder exclusively, so at its start no star of an earlier life can be alive:
// it clears the fleet's ephemeral rows instead of waiting for their sessions to end. That is the one
// thing in which it differs from separate processes.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"nova.internal/libs/runtime"
	"nova.internal/services/gateway/gateway"
	"nova.internal/services/placer/placer"
	"nova.internal/services/sequencer/star"
)

// Addrs is where a running fleet listens.
type Addrs struct {
	Gateway, HTTP string
	Placer        string
	Infra         InfraAddrs
	Stars         map[string]string // gRPC address by star
}

// Greeting says what listens where and what to try next.
func (a Addrs) Greeting() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nova serves %d stars\n\n", len(a.Stars))
	fmt.Fprintf(&b, "  gateway  gRPC %s\n", a.Gateway)
	fmt.Fprintf(&b, "           http://%s  (/healthz /readyz /metrics)\n", a.HTTP)
	for i := range len(a.Stars) {
		name := starName(i)
		fmt.Fprintf(&b, "  %-8s gRPC %s\n", name, a.Stars[name])
	}
	fmt.Fprintf(&b, "  placer   gRPC %s\n  oxia     %s (durable), %s (ephemeral)\n  nats     %s\n\n", a.Placer, a.Infra.Oxia, a.Infra.Ephemeral, a.Infra.NATS)
	flag := ""
	if a.Gateway != DefaultConfig().Listen {
		flag = " --gateway " + a.Gateway
	}
	fmt.Fprintf(&b, "Try:\n  novactl%[1]s stream create orders\n  echo hello | novactl%[1]s produce orders\n  novactl%[1]s consume orders --from first\n\n", flag)
	return b.String()
}

func starName(i int) string { return fmt.Sprintf("star-%d", i+1) }

// Run runs the fleet until ctx ends, then stops it from the top down: the gateway, the stars (each
// certifies what it leads), the placer, NATS, Oxia.
func Run(ctx context.Context, cfg Config, env runtime.Env, ready func(Addrs)) (err error) {
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	unlock, err := lock(data)
	if err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	defer unlock()
	if err := os.RemoveAll(filepath.Join(data, ephemeralDir)); err != nil {
		return runtime.ExitError(runtime.ExitUsage, fmt.Errorf("clear the ephemeral rows of an earlier life: %w", err))
	}
	infra, err := startInfra(InfraConfig{Data: data, Oxia: "127.0.0.1:0", Ephemeral: "127.0.0.1:0", NATS: "127.0.0.1:0", Shards: 1}, env)
	if err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	parts := newStack(env.Health)
	defer func() { err = errors.Join(err, parts.close(), infra.close()) }()
	addrs, err := startParts(ctx, cfg, data, infra.addrs, env, parts)
	if err != nil {
		return err
	}
	ready(addrs)
	return parts.wait(ctx)
}

func startParts(ctx context.Context, cfg Config, data string, infra InfraAddrs, env runtime.Env, parts *stack) (Addrs, error) {
	addrs := Addrs{Infra: infra, Stars: map[string]string{}}
	metastore := cfg.Star.Oxia
	metastore.Durable, metastore.Ephemeral, metastore.SessionTimeout = infra.Oxia, infra.Ephemeral, cfg.SessionTimeout
	copyOf := func(name string) string { return "file://" + filepath.Join(data, copiesDir, name) }
	standard, express := []string{copyOf("standard")}, []string{copyOf("express-a"), copyOf("express-b"), copyOf("express-c")}

	part := func(name string) runtime.Env { return env.Part(name, prometheus.Labels{"part": name}) }
	err := parts.push(ctx, "placer", func(ctx context.Context, ready func()) error {
		c := placer.DefaultConfig()
		c.Oxia, c.Oxia.Identity = metastore, "placer"
		return placer.Run(ctx, c, part("placer"), func(a placer.Addrs) { addrs.Placer = a.GRPC; ready() })
	})
	if err != nil {
		return addrs, err
	}
	for i := range cfg.Stars {
		name := starName(i)
		err := parts.push(ctx, name, func(ctx context.Context, ready func()) error {
			c := cfg.Star
			c.Star, c.Location, c.Placer, c.NATS, c.Oxia = name, "local", addrs.Placer, infra.NATS, metastore
			c.Standard, c.Express = standard, express
			return star.Run(ctx, c, part(name), func(a star.Addrs) { addrs.Stars[name] = a.GRPC; ready() })
		})
		if err != nil {
			return addrs, err
		}
	}
	return addrs, parts.push(ctx, "gateway", func(ctx context.Context, ready func()) error {
		c := gateway.DefaultConfig()
		c.Listen, c.HTTP, c.Placer, c.NATS, c.Oxia, c.Oxia.Identity = cfg.Listen, cfg.HTTP, addrs.Placer, infra.NATS, metastore, "gateway"
		c.Standard, c.Express = standard, express
		own := part("gateway")
		own.Health, own.Gatherer = env.Health, env.Gatherer // its HTTP speaks for the whole fleet
		return gateway.Run(ctx, c, own, func(a gateway.Addrs) { addrs.Gateway, addrs.HTTP = a.GRPC, a.HTTP; ready() })
	})
}
