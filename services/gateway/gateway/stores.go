package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/copystats"
	"nova.internal/libs/runtime"
)

// reopenEvery is how often a copy that could not be opened is tried again.
const reopenEvery = 5 * time.Second

// stores are the copies that published segments are read from. They are opened when a read first needs
// them, because a fleet that has never had a star has no copies yet; a gateway gives none its identity.
type stores struct {
	rows *coord.Rows
	log  *slog.Logger

	mu      sync.Mutex
	classes map[novav1.Class]*store
}

type store struct {
	urls   []string
	copies []flightlog.Copy // nil where not open
	tried  time.Time
	set    *flightlog.Copies // those that are open
	reader *flightlog.Reader // over them; nil without any
	repair *flightlog.Repairer
}

func newStores(cfg Config, rows *coord.Rows, env runtime.Env) (*stores, error) {
	s := &stores{rows: rows, log: env.Log, classes: map[novav1.Class]*store{}}
	report, err := copystats.NewRepairs(env.Metrics, env.Log, func() (n int) {
		for _, c := range s.classes {
			n += c.repair.Waiting()
		}
		return n
	})
	for class, urls := range map[novav1.Class][]string{novav1.Class_CLASS_STANDARD: cfg.Standard, novav1.Class_CLASS_EXPRESS: cfg.Express} {
		c := &store{urls: urls, copies: make([]flightlog.Copy, len(urls)), set: &flightlog.Copies{Class: class}}
		c.repair = flightlog.NewRepairer(func() *flightlog.Copies {
			s.mu.Lock()
			defer s.mu.Unlock()
			return c.set
		}, report)
		s.classes[class] = c
	}
	return s, err
}

// repair repairs what reads find damaged or missing, until ctx ends. A read asks for what segments name,
// so each slot it meets is decided, and a repair needs no quorum.
func (s *stores) repair(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range s.classes {
		all.Go(func() { c.repair.Run(ctx) })
	}
	all.Wait()
}

// reader reads the class's copies; nil when this gateway can reach none of them.
func (s *stores) reader(ctx context.Context, class novav1.Class) *flightlog.Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classes[class]
	if c == nil || time.Since(c.tried) < reopenEvery {
		if c == nil {
			return nil
		}
		return c.reader
	}
	c.tried = time.Now()
	var open []flightlog.Copy
	fresh := false
	for i, url := range c.urls {
		if c.copies[i] == nil {
			opened, err := s.open(ctx, class, i, url)
			if err != nil {
				s.log.Debug("a copy cannot be read from here", "class", class, "copy", i, "err", err)
				continue
			}
			c.copies[i], fresh = opened, true
		}
		open = append(open, c.copies[i])
	}
	if fresh {
		c.set = &flightlog.Copies{Class: class, List: open}
		c.reader = flightlog.NewReader(c.set, func(copy, key string, err error) {
			s.log.Warn("a copy did not serve an object that it should hold", "copy", copy, "key", key, "err", err)
			c.repair.ReadFault(copy, key, err)
		})
	}
	return c.reader
}

// open opens one copy, guarded by the identity under which the fleet knows it.
func (s *stores) open(ctx context.Context, class novav1.Class, index int, url string) (flightlog.Copy, error) {
	row := &novav1.CopyRow{}
	if _, err := s.rows.Get(ctx, coord.CopyKey(class, index), row); err != nil {
		return nil, fmt.Errorf("read which store it is: %w", err)
	}
	c, err := flightlog.OpenCopy(url)
	if err != nil {
		return nil, err
	}
	if row.GetIdentity() == "" {
		return nil, errors.New("the fleet knows it under no identity")
	}
	return flightlog.Admit(c, row.GetIdentity()), nil
}

// segments lets the cold reader find segment rows.
type segments struct{ rows *coord.Rows }

func (s segments) Floor(ctx context.Context, id string, seq uint64) (*novav1.SegmentRow, error) {
	row := &novav1.SegmentRow{}
	if _, _, err := s.rows.Floor(ctx, coord.SegmentKey(id, seq), row); err != nil {
		return nil, err
	}
	return row, nil
}
