package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/runtime"
	"nova.internal/services/nova/fleet"
)

// Fleet is a running fleet.
type Fleet struct {
	fleet.Addrs
	data string
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// DefaultConfig is a fleet of one star as it runs in production, with room for many producers.
func DefaultConfig() fleet.Config {
	cfg := fleet.DefaultConfig()
	cfg.Stars, cfg.Listen, cfg.HTTP = 1, "127.0.0.1:0", "127.0.0.1:0"
	cfg.Star.MaxProducerSessions = 16384
	return cfg
}

// Start runs a fleet on the data folder until Stop. It returns once the fleet serves.
func Start(ctx context.Context, data string, cfg fleet.Config) (*Fleet, error) {
	cfg.Data = data
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &Fleet{data: data, stop: cancel, done: make(chan struct{})}
	ready := make(chan fleet.Addrs, 1)
	env := runtime.NewEnv("bench", slog.New(slog.DiscardHandler))
	go func() {
		defer close(f.done)
		f.err = fleet.Run(own, cfg, env, func(a fleet.Addrs) { ready <- a })
	}()
	select {
	case f.Addrs = <-ready:
		return f, nil
	case <-f.done:
		cancel()
		return nil, fmt.Errorf("start a fleet: %w", f.err)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), f.Stop())
	}
}

// Stop stops the fleet in good order: everything it led is certified.
func (f *Fleet) Stop() error {
	f.stop()
	<-f.done
	return f.err
}

// Way is how a client reaches the stars.
type Way int

// The ways.
const (
	Direct  Way = iota // to the star itself
	Gateway            // through the gateway
)

// Client returns a client of the fleet. With Direct it knows no gateway: names are created by another.
func (f *Fleet) Client(ctx context.Context, way Way) (*client.Client, error) {
	if way == Gateway {
		return client.Dial(ctx, client.Config{Gateway: f.Gateway})
	}
	cfg := client.Config{Direct: true}
	for _, address := range f.Stars {
		cfg.Stars = append(cfg.Stars, address)
	}
	return client.Dial(ctx, cfg)
}

// createAtOnce is how many names are created at the same time.
const createAtOnce = 32

// Create makes n streams and returns their names.
func (f *Fleet) Create(ctx context.Context, prefix string, n int, class novav1.Class) ([]string, error) {
	c, err := f.Client(ctx, Gateway)
	if err != nil {
		return nil, err
	}
	names := make([]string, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(createAtOnce)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		g.Go(func() error {
			_, err := c.Create(gctx, names[i], novav1.Mode_MODE_ANY, class)
			return err
		})
	}
	return names, errors.Join(g.Wait(), c.Close())
}

// AwaitVacant waits until nobody leads any of the streams.
func (f *Fleet) AwaitVacant(ctx context.Context, names []string) error {
	c, err := f.Client(ctx, Gateway)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range names {
		for {
			info, err := c.Describe(ctx, name)
			if err != nil {
				return err
			}
			if info.GetLeader() == "" {
				break
			}
			if err := Pause(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// Objects are the paths of all flights on the fleet's copies, and their bytes.
func (f *Fleet) Objects() (paths []string, bytes int64, err error) { return Objects(f.data) }

// Objects are the paths of all flights on the copies below a data folder, and their bytes.
func Objects(data string) (paths []string, bytes int64, err error) {
	err = filepath.WalkDir(filepath.Join(data, "copies"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a temporary file that has gone
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".tmp":
			return fs.SkipDir
		case d.IsDir() || !isSlot(d.Name()):
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		paths, bytes = append(paths, path), bytes+info.Size()
		return nil
	})
	return paths, bytes, err
}

// isSlot says whether a file's name is that of a flight: a slot's number.
func isSlot(name string) bool {
	for _, r := range name {
		if r < '0' || r > '9' {
			return false
		}
	}
	return name != ""
}

// Pause waits for d or for ctx's end.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
