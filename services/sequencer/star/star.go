package star

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/events"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/runtime"
	"nova.internal/services/sequencer/star/lifecycle"
)

// Star is one sequencer process.
type Star struct {
	novav1.UnimplementedStreamsServer
	novav1.UnimplementedStarServer

	cfg       Config
	log       *slog.Logger
	fleet     *coord.Fleet
	copies    map[novav1.Class]*flightlog.Copies
	readers   map[novav1.Class]*flightlog.Reader
	repairers map[novav1.Class]*flightlog.Repairer
	known     map[novav1.Class][]*flightlog.Known // the copies' identities
	peers     *peers
	graves    *graves
	report    *report
	health    *runtime.Health

	sessions  *sessions
	admission *admission
	tails     *tailBudget

	// ctx is the star's own life: gates, departures and releases run on it, not on a caller's.
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	stopping chan struct{} // closed when the star begins to stop

	registration atomic.Pointer[coord.Registration]
	inc          atomic.Pointer[incarnation]
	reborn       sync.Mutex // one change of incarnation at a time
}

// Addrs is where a running star listens.
type Addrs struct{ GRPC, HTTP string }

// Run is a star from registration to its last lease's release. ready is called once it serves. It
// returns nil when ctx ended and everything led here was certified in time.
//
//	copies ─ probe ─▶ register (liveness row) ─▶ chain rows ─▶ serve ─▶ … ctx ends ─▶ stop
func Run(ctx context.Context, cfg Config, env runtime.Env, ready func(Addrs)) error {
	return run(ctx, cfg, env, func(*Star) {}, ready)
}

// run is Run; made hears of the star before it serves.
func run(ctx context.Context, cfg Config, env runtime.Env, made func(*Star), ready func(Addrs)) error {
	if err := cfg.Validate(); err != nil {
		return runtime.ExitError(2, err)
	}
	s, err := open(ctx, cfg, env)
	if err != nil {
		return err
	}
	defer s.close()
	made(s)

	lis, err := runtime.Listen(cfg.Listen)
	if err != nil {
		return err
	}
	if s.cfg.Advertise == "" {
		s.cfg.Advertise = lis.Addr().String()
	}
	if err := s.join(ctx); err != nil {
		_ = lis.Close()
		return err
	}
	return s.serve(ctx, env, lis, ready)
}

// open connects everything a star stands on, and starts nothing.
func open(ctx context.Context, cfg Config, env runtime.Env) (*Star, error) {
	log := env.Log.With("star", cfg.Star)
	cfg.Oxia.Log, cfg.Oxia.Identity = log, cfg.Star
	fleet, err := coord.Dial(ctx, cfg.Oxia)
	if err != nil {
		return nil, err
	}
	s := &Star{cfg: cfg, log: log, health: env.Health, fleet: fleet, peers: &peers{}, stopping: make(chan struct{}), known: map[novav1.Class][]*flightlog.Known{}, tails: &tailBudget{bound: int(cfg.TailCacheBytes)}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.graves = newGraves(s)
	if s.report, err = newReport(s.ctx, s, env); err != nil {
		return nil, errors.Join(err, fleet.Close())
	}
	s.admission = newAdmission(int64(cfg.AdmissionBytes))
	s.sessions = &sessions{bound: int64(cfg.MaxProducerSessions), shed: s.report.shed}
	if s.repairers, err = newRepairers(s); err != nil {
		s.close()
		return nil, err
	}
	if s.copies, s.readers, err = openCopies(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close lets go of everything, within bounds of its own. The Oxia clients go last: closing them ends the
// session and with it whatever ephemeral row is left.
func (s *Star) close() {
	s.cancel()
	s.work.Wait()
	s.peers.close()
	s.report.close()
	if err := s.fleet.Close(); err != nil {
		s.log.Warn("oxia clients did not close cleanly", "err", err)
	}
}

// join makes the star a member of the fleet. The liveness row comes first, because a chain without a
// living incarnation is fair game for every fencer; the chain rows come second, because no gate may pass
// before they stand.
func (s *Star) join(ctx context.Context) error {
	inc := newIncarnation(s)
	reg, err := s.fleet.Register(ctx, &novav1.StarRow{
		Star: s.cfg.Star, Location: s.cfg.Location, Address: s.cfg.Advertise, Incarnation: inc.id,
		Version: runtime.Version(), JoinedUnixMs: time.Now().UnixMilli(),
	})
	if err != nil {
		return fmt.Errorf("register star %s: %w", s.cfg.Star, err)
	}
	s.registration.Store(reg)
	if err := inc.found(ctx); err != nil {
		return errors.Join(err, reg.Close(context.WithoutCancel(ctx)))
	}
	if _, err := s.fleet.Registry().Refresh(ctx); err != nil { // this star must see itself before it places
		return errors.Join(err, reg.Close(context.WithoutCancel(ctx)))
	}
	inc.begin()
	s.inc.Store(inc)
	s.report.joined(inc)
	return nil
}

// serve runs the star until ctx ends, then stops it.
func (s *Star) serve(ctx context.Context, env runtime.Env, lis net.Listener, ready func(Addrs)) error {
	server := runtime.NewServer(env)
	novav1.RegisterStreamsServer(server, s)
	novav1.RegisterStarServer(server, s)
	loops, endLoops := context.WithCancel(s.ctx)
	defer endLoops()
	s.goes(func() { s.settleLoop(loops) })
	s.goes(func() { s.statsLoop(loops) })
	s.goes(func() { s.watchSession(loops) })
	s.goes(func() { s.watchStorage(loops) })
	s.goes(func() { s.sweepLoop(loops) })
	s.goes(func() { s.watchCopies(loops) })
	s.goes(func() { s.scrubLoop(loops) })
	for _, r := range s.repairers {
		s.goes(func() { r.Run(loops) })
	}
	addrs := Addrs{GRPC: lis.Addr().String()}

	var g runtime.Group
	g.Add(func() error {
		<-ctx.Done()
		endLoops()
		s.stop()
		return nil
	}, func(error) { s.cancel() })
	g.Add(runtime.GRPC(lis, server))
	if s.cfg.HTTP != "" {
		web, err := runtime.Listen(s.cfg.HTTP)
		if err != nil {
			return errors.Join(err, lis.Close())
		}
		addrs.HTTP = web.Addr().String()
		g.Add(runtime.HTTP(web, env.Health.Handler(env.Gatherer)))
	}
	s.health.Set("serving", nil)
	ready(addrs)
	return g.Run()
}

// stop empties the star: nothing new is taken, every leadership is certified (flush, mark, release) as
// far as the budget reaches, and the chains of what was fully certified are closed, so that the next
// start scans nothing. The session ends last.
func (s *Star) stop() {
	ctx, cancel := context.WithTimeout(s.ctx, time.Duration(s.cfg.StopBudget)-closeReserve)
	defer cancel()
	close(s.stopping)
	s.health.Set("serving", errors.New("stopping"))
	reg, inc := s.registration.Load(), s.inc.Load()
	if err := reg.Update(ctx, func(row *novav1.StarRow) { row.Draining = novav1.Draining_DRAINING_EXIT }); err != nil {
		s.log.Warn("the fleet was not told that this star stops", "err", err)
	}
	left := inc.departAll(ctx, lifecycle.Shutdown, certifyParallel)
	inc.close(ctx, left == 0)
	s.report.left(inc, left)
	if err := reg.Close(ctx); err != nil {
		s.log.Warn("the liveness row was not removed; it ends with the session", "err", err)
	}
}

const (
	certifyParallel = 64
	// closeReserve is the part of the stop budget that is kept for closing the Oxia clients.
	closeReserve = 2 * time.Second
)

// goes runs f as one of the star's own goroutines; close waits for it.
func (s *Star) goes(f func()) { s.work.Go(f) }

// current is the incarnation that serves now.
func (s *Star) current() *incarnation { return s.inc.Load() }

// stream returns what the current incarnation knows of the named stream.
func (s *Star) stream(name *novav1.NameRow) *stream { return s.current().stream(name) }

// readHead reads a stream's head, nil when it has none.
func (s *Star) readHead(ctx context.Context, id string) (*novav1.HeadRow, error) {
	return epoch.NewGuard(s.fleet.Rows(), id).Read(ctx)
}

// refusesLeadership says why this star takes no new leadership now, or "".
func (s *Star) refusesLeadership() string {
	select {
	case <-s.stopping:
		return "this star is stopping"
	default:
	}
	if reg := s.registration.Load(); reg != nil {
		return ineligible(reg.Row())
	}
	return ""
}

// deposed replaces an incarnation whose chain is lost by a new one. The old chains are fenced and
// settled like a dead star's; the leadership of their streams is claimed anew by whoever opens them.
func (s *Star) deposed(inc *incarnation, why error) {
	s.goes(func() { s.replace(inc, why, "") })
}

// replace ends inc and begins another, which may lead nothing where ineligible says why. It returns when
// the new one serves, or the star has ended, or inc was replaced already.
func (s *Star) replace(inc *incarnation, why error, ineligible string) {
	s.reborn.Lock()
	defer s.reborn.Unlock()
	if s.inc.Load() != inc {
		return
	}
	s.log.Error("this incarnation is over; starting another", "incarnation", inc.id, "err", why)
	inc.end(why)
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		next, err := s.rebirth(s.ctx, ineligible)
		if err == nil {
			s.inc.Store(next)
			s.report.joined(next)
			return
		}
		s.log.Warn("no new incarnation yet", "err", err)
		if !sleep(s.ctx, pause) {
			return
		}
	}
}

func (s *Star) rebirth(ctx context.Context, ineligible string) (*incarnation, error) {
	inc := newIncarnation(s)
	err := s.registration.Load().Update(ctx, func(row *novav1.StarRow) {
		row.Incarnation = inc.id
		if ineligible != "" {
			row.Ineligible = ineligible
		}
	})
	if err != nil {
		return nil, err
	}
	if err := inc.found(ctx); err != nil {
		return nil, err
	}
	inc.begin()
	return inc, nil
}

func (s *Star) settleLoop(ctx context.Context) {
	for {
		if err := s.settleChains(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("dead chains were not looked after", "err", err)
		}
		if !sleep(ctx, s.cfg.SettleInterval) {
			return
		}
	}
}

// publisher returns the events publisher that cfg asks for, or nil.
func publisher(ctx context.Context, cfg Config, env runtime.Env) (*events.Publisher, error) {
	if cfg.NATS == "" {
		return nil, nil
	}
	return events.New(ctx, cfg.NATS, events.Config{Log: env.Log, Metrics: env.Metrics})
}
