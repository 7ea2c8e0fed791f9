package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nova.internal/libs/events/natsembed"
	"nova.internal/libs/oxiaembed"
	"nova.internal/libs/runtime"
)

// The folders of a data folder.
const (
	durableDir   = "oxia"       // /nova: what must last
	ephemeralDir = "oxia-fleet" // /fleet: rows of sessions
	natsDir      = "nats"
	copiesDir    = "copies"
)

// InfraAddrs is where the embedded metastore and NATS listen.
type InfraAddrs struct{ Oxia, Ephemeral, NATS string }

// Greeting says what listens where and how to start services on it.
func (a InfraAddrs) Greeting() string {
	var b strings.Builder
	fmt.Fprintf(&b, "oxia (durable)    %s\noxia (ephemeral)  %s\nnats              %s\n\n", a.Oxia, a.Ephemeral, a.NATS)
	fmt.Fprintf(&b, "Services find them by:\n  export NOVA_OXIA=%s NOVA_OXIA_EPHEMERAL=%s NOVA_NATS=%s\n", a.Oxia, a.Ephemeral, a.NATS)
	return b.String()
}

// RunInfra runs the embedded Oxia and NATS until ctx ends. Unlike a fleet in one process it keeps the
// fleet's ephemeral rows: stars of other processes may live on over its restart.
func RunInfra(ctx context.Context, cfg InfraConfig, env runtime.Env, ready func(InfraAddrs)) error {
	unlock, err := lock(cfg.Data)
	if err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	defer unlock()
	infra, err := startInfra(cfg, env)
	if err != nil {
		return runtime.ExitError(runtime.ExitUsage, err)
	}
	var g runtime.Group
	g.Add(runtime.Until(ctx))
	ready(infra.addrs)
	return errors.Join(g.Run(), infra.close())
}

// infra is the embedded metastore and NATS.
type infra struct {
	addrs              InfraAddrs
	durable, ephemeral *oxiaembed.Server
	nats               *natsembed.Server
}

func startInfra(cfg InfraConfig, env runtime.Env) (*infra, error) {
	var i infra
	var err error
	oxia := func(dir, listen string, sync bool) (*oxiaembed.Server, error) {
		return oxiaembed.Start(oxiaembed.Config{Dir: filepath.Join(cfg.Data, dir), Listen: listen, Shards: cfg.Shards, Sync: sync, AllowRemote: cfg.Remote, Logger: env.Log})
	}
	// The durable rows survive the machine; the ephemeral ones need not survive the process.
	if i.durable, err = oxia(durableDir, cfg.Oxia, true); err != nil {
		return nil, fmt.Errorf("start the durable oxia: %w", err)
	}
	if i.ephemeral, err = oxia(ephemeralDir, cfg.Ephemeral, false); err != nil {
		return nil, errors.Join(fmt.Errorf("start the ephemeral oxia: %w", err), i.close())
	}
	if i.nats, err = natsembed.Start(natsembed.Config{Dir: filepath.Join(cfg.Data, natsDir), Listen: cfg.NATS, Log: env.Log}); err != nil {
		return nil, errors.Join(fmt.Errorf("start nats: %w", err), i.close())
	}
	i.addrs = InfraAddrs{Oxia: i.durable.Addr(), Ephemeral: i.ephemeral.Addr(), NATS: i.nats.URL()}
	return &i, nil
}

func (i *infra) close() error {
	var errs []error
	if i.nats != nil {
		i.nats.Close()
	}
	for _, s := range []*oxiaembed.Server{i.ephemeral, i.durable} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// lock makes the data folder and holds it for this process, until the returned function is called or the
// process dies in whatever way.
func lock(dir string) (func(), error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("data folder %s cannot be written: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder %s is in use by another nova; stop it, or give this one a folder of its own with --data", dir), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}
