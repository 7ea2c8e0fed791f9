package star

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/events"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/runtime"
)

// report is the one place where what happened to the domain becomes log lines, metrics and events. The
// logic tells it facts and knows none of the three. Its methods never block, so they may be called under
// a stream's lock.
type report struct {
	star   *Star
	env    runtime.Env
	events *events.Publisher // nil: none are wanted

	opens, departures, moves, sheds *prometheus.CounterVec
	heals, orphans, gaps, limbos, depositions, recovered,
	placerMisses, badCopies, missedPuts, scrubs, scrubBytes prometheus.Counter
	leaders, sessions, appendRate, hotReadRate prometheus.Gauge
	gate                                       prometheus.Histogram
	sometimes, sampled                         rate.Sometimes // log lines and events that storms would repeat
}

func newReport(ctx context.Context, s *Star, env runtime.Env) (*report, error) {
	r := &report{star: s, env: env, sometimes: rate.Sometimes{Interval: time.Second}, sampled: rate.Sometimes{Interval: time.Second}}
	vec := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		env.Metrics.MustRegister(c)
		return c
	}
	count := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		env.Metrics.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		env.Metrics.MustRegister(g)
		return g
	}
	r.opens = vec("nova_leaderships_opened_total", "Gates that passed, by the evidence of coverage.", "coverage")
	r.departures = vec("nova_leaderships_released_total", "Departures whose mark landed, by reason.", "reason")
	r.moves = vec("nova_handoffs_total", "Handoffs from this star, by outcome.", "outcome")
	r.sheds = vec("nova_shed_total", "New work refused at an explicit bound.", "bound")
	r.heals = count("nova_lease_heals_total", "Orphaned leases that were re-attached.")
	r.orphans = count("nova_lease_orphans_released_total", "Orphaned leases that a sweep let go.")
	r.gaps = count("nova_stream_gaps_total", "Gates that met a gap in the evidence. Above 0 needs a person.")
	r.limbos = count("nova_limbo_total", "Finishes that could not land and are retried.")
	r.depositions = count("nova_leaderships_deposed_total", "Leaderships that ended without a mark.")
	r.recovered = count("nova_records_recovered_total", "Records that gates published from a predecessor's chain.")
	r.placerMisses = count("nova_placer_fallbacks_total", "Placement decided here because no placer answered.")
	r.badCopies = count("nova_copy_read_faults_total", "Reads that a copy could not serve though it should hold the object.")
	r.missedPuts = count("nova_copy_puts_missed_total", "Committed flights that a copy lacks because it was away for too long.")
	r.scrubs = count("nova_scrubs_total", "Passes over the copies of this star's chains.")
	r.scrubBytes = count("nova_scrub_bytes_total", "Bytes that those passes have read.")
	r.leaders = gauge("nova_leaderships", "Streams led here.")
	r.sessions = gauge("nova_producer_sessions", "Producer handles open here.")
	r.appendRate = gauge("nova_append_bytes_per_second", "Bytes appended here, smoothed.")
	r.hotReadRate = gauge("nova_hot_read_bytes_per_second", "Bytes read at the tails led here, smoothed.")
	r.gate = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "nova_gate_seconds", Help: "How long gates took that passed.", Buckets: prometheus.ExponentialBuckets(0.0005, 3, 11)})
	env.Metrics.MustRegister(r.gate)
	var err error
	r.events, err = publisher(ctx, s.cfg, env)
	return r, err
}

func (r *report) close() {
	if r.events == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeReserve)
	defer cancel()
	if err := r.events.Close(ctx); err != nil {
		r.star.log.Warn("events were left unsent", "err", err)
	}
}

// tell publishes an event about s, or about the star where s is nil.
func (r *report) tell(kind events.Kind, s *stream, data any) {
	if r.events == nil {
		return
	}
	e := events.Event{Kind: kind, Star: r.star.cfg.Star, Data: data, Time: time.Now()}
	if s != nil {
		e.Stream, e.StreamID, e.Epoch = s.name, s.id, s.epoch
	}
	r.events.Publish(e)
}

var coverageNames = map[novav1.Coverage]string{
	novav1.Coverage_COVERAGE_CLEAN: "clean", novav1.Coverage_COVERAGE_RECOVERED: "recovered", novav1.Coverage_COVERAGE_OWN_INDEX: "own-index",
	novav1.Coverage_COVERAGE_EVIDENCE: "evidence", novav1.Coverage_COVERAGE_ABANDONED: "abandoned",
}

// opened: a gate passed. s.mu is held.
func (r *report) opened(s *stream, g *gate, p *passage, took time.Duration) {
	coverage := coverageNames[p.coverage]
	r.opens.WithLabelValues(coverage).Inc()
	r.recovered.Add(float64(p.recovered))
	r.gate.Observe(took.Seconds())
	r.star.log.Info("leadership opened", "stream", s.name, "id", s.id, "epoch", s.epoch, "next", s.next, "coverage", coverage, "recovered", p.recovered, "took", took, "handoff", g.handoff)
	r.tell(events.EpochBumped, s, nil)
	r.tell(events.LeadershipOpened, s, events.Opened{Coverage: coverage, Recovered: p.recovered, Millis: took.Milliseconds(), Handoff: g.handoff, Trigger: g.trigger, Chain: s.chain.name})
	r.star.goes(func() { r.star.recordEpochs(s.id, g, p) })
}

func (r *report) idle(s *stream)     { r.tell(events.LeadershipIdle, s, nil) }
func (r *report) rejoined(s *stream) { r.tell(events.LeadershipRejoined, s, nil) }

// released: a departure landed. s.mu is held.
func (r *report) released(s *stream, d *departure) {
	r.departures.WithLabelValues(string(d.reason)).Inc()
	r.star.log.Info("leadership released", "stream", s.name, "id", s.id, "epoch", d.epoch, "covered", d.covered, "reason", d.reason)
	r.tell(events.LeadershipReleased, s, events.Released{Reason: string(d.reason), Covered: d.covered})
}

func (r *report) deposed(s *stream, err error) {
	r.depositions.Inc()
	r.star.log.Warn("leadership deposed", "stream", s.name, "id", s.id, "epoch", s.epoch, "err", err)
	r.tell(events.LeadershipDeposed, s, events.Limbo{Reason: "deposed", Error: err.Error()})
}

func (r *report) limbo(s *stream, err error) {
	r.limbos.Inc()
	r.star.log.Warn("a release could not land; it is retried with its lease kept", "stream", s.name, "epoch", s.epoch, "reason", s.state.Reason, "err", err)
	r.tell(events.LeadershipLimbo, s, events.Limbo{Reason: string(s.state.Reason), Error: err.Error()})
}

func (r *report) gap(s *stream, err error) {
	r.gaps.Inc()
	r.star.log.Error("the evidence of coverage has a gap; the stream is not opened", "stream", s.name, "id", s.id, "err", err)
	r.tell(events.StreamGap, s, events.Limbo{Reason: "gap", Error: err.Error()})
}

func (r *report) healed(s *stream, age time.Duration) {
	r.heals.Inc()
	r.star.log.Warn("healed an orphaned lease", "stream", s.name, "age", age)
	r.tell(events.LeaseHealed, s, events.Healed{AgeMillis: age.Milliseconds()})
}

func (r *report) orphanReleased(l coord.Lease) {
	r.orphans.Inc()
	r.star.log.Warn("released an orphaned lease", "id", l.ID, "acquired", time.UnixMilli(l.Row.GetAcquiredUnixMs()))
}

func (r *report) handoffFinished(s *stream, d *departure, taken uint64) {
	r.moves.WithLabelValues("finished").Inc()
	r.tell(events.HandoffFinished, s, r.handoff(d, taken, nil))
}

func (r *report) handoffFailed(s *stream, d *departure, err error) {
	r.moves.WithLabelValues("failed").Inc()
	r.star.log.Warn("handoff failed", "stream", s.name, "to", d.target.GetStar(), "handoff", d.target.GetHandoff(), "err", err)
	r.tell(events.HandoffFailed, s, r.handoff(d, 0, err))
}

func (r *report) handoff(d *departure, taken uint64, err error) events.Handoff {
	h := events.Handoff{ID: d.target.GetHandoff(), From: r.star.cfg.Star, To: d.target.GetStar(), Trigger: d.trigger, Epoch: d.epoch, Covered: d.covered, Taken: taken}
	if err != nil {
		h.Error = err.Error()
	}
	return h
}

func (r *report) chainSealed(chain string, seal uint64, took time.Duration) {
	r.star.log.Info("sealed a dead chain", "chain", chain, "seal", seal, "took", took)
	r.tell(events.ChainSealed, nil, events.Sealed{Chain: chain, Seal: seal, Millis: took.Milliseconds()})
}

func (r *report) chainSettled(chain string, streams int, took time.Duration) {
	r.star.log.Info("settled a dead chain", "chain", chain, "streams", streams, "took", took)
	r.tell(events.ChainSettled, nil, events.Settled{Chain: chain, Streams: streams, Millis: took.Milliseconds()})
}

func (r *report) joined(inc *incarnation) {
	cfg := r.star.cfg
	r.star.log.Info("joined the fleet", "incarnation", inc.id, "address", cfg.Advertise, "location", cfg.Location)
	r.tell(events.StarJoined, nil, events.Joined{Location: cfg.Location, Address: cfg.Advertise, Incarnation: inc.id, Version: runtime.Version()})
}

func (r *report) left(inc *incarnation, leading int) {
	r.star.log.Info("left the fleet", "incarnation", inc.id, "still_leading", leading)
	r.tell(events.StarLeft, nil, events.Left{Leading: leading})
}

func (r *report) shed(bound string) {
	r.sheds.WithLabelValues(bound).Inc()
	r.sampled.Do(func() { r.tell(events.Shed, nil, events.Bound{Name: bound}) })
}

func (r *report) placerAway(err error) {
	r.placerMisses.Inc()
	r.star.log.Debug("no answer from the placer; deciding here", "err", err)
}

// badCopy: a copy could not serve a read. A flight that was committed a moment ago may still be on its
// way to the last copy, so it is said now and then, and counted always.
func (r *report) badCopy(copy, key string, err error) {
	r.badCopies.Inc()
	r.sometimes.Do(func() {
		r.star.log.Warn("a copy could not serve an object that it should hold", "copy", copy, "key", key, "err", err)
	})
}

// missed: a copy was away for so long that a committed flight was given up on it.
func (r *report) missed(copy string, slot uint64, err error) {
	r.missedPuts.Inc()
	r.sometimes.Do(func() { r.star.log.Warn("a copy misses a committed flight", "copy", copy, "slot", slot, "err", err) })
}

func (r *report) copyAdmitted(a *admit, identity string, told *novav1.AdmitCopyResponse, took time.Duration) {
	r.star.log.Info("admitted a store as a copy", "class", flightlog.ClassName(a.class), "index", a.index, "copy", a.to.Name(), "identity", identity, "objects", told.GetObjects(), "bytes", told.GetBytes(), "took", took)
	r.tell(events.CopyAdmitted, nil, events.Admitted{Class: flightlog.ClassName(a.class), Index: a.index, Copy: a.to.Name(), Identity: identity, Objects: told.GetObjects(), Bytes: told.GetBytes(), Millis: took.Milliseconds()})
}

func (r *report) chainDecided(d events.Decided) {
	r.star.log.Warn("a chain was ended on a person's word", "chain", d.Chain, "seal", d.Seal, "counted", d.Counted, "loss_accepted", d.LossAccepted)
	r.tell(events.ChainDecided, nil, d)
}

func (r *report) scrubbed(s flightlog.Scrubbed, took time.Duration) {
	r.scrubs.Inc()
	r.scrubBytes.Add(float64(s.Bytes))
	r.star.log.Info("looked at the copies of this star's chains", "slots", s.Slots, "bytes", s.Bytes, "mended", s.Mended, "unmended", s.Unmended, "took", took)
}

func (r *report) measured(row *novav1.StatsRow) {
	r.leaders.Set(float64(row.GetLeaders()))
	r.sessions.Set(float64(row.GetSessions()))
	r.appendRate.Set(row.GetAppendBytesPerSecond())
	r.hotReadRate.Set(row.GetHotReadBytesPerSecond())
}

// recordEpochs writes the record of the epoch that a gate took, and those of its predecessors that their
// own openers may have died before writing: the holder before, and an opening that never passed. The
// rows are the audit's ground truth; nothing else rests on them.
func (s *Star) recordEpochs(id string, g *gate, p *passage) {
	ctx, cancel := context.WithTimeout(s.ctx, publishWait)
	defer cancel()
	record := func(h *novav1.Holder, coverage novav1.Coverage) {
		row := &novav1.EpochRow{Epoch: h.GetEpoch(), Star: h.GetStar(), Chain: h.GetChain(), OpenedUnixMs: h.GetSinceUnixMs(), Coverage: coverage, Handoff: h.GetHandoff()}
		if h.GetEpoch() == p.head.GetEpoch() {
			row.Trigger = g.trigger
		}
		_, err := s.fleet.Rows().Lingering().Put(ctx, coord.EpochKey(id, h.GetEpoch()), row, coord.Absent)
		if err != nil && !errors.Is(err, coord.ErrConflict) {
			s.log.Debug("an epoch's record was not written; the next opener does it", "id", id, "epoch", h.GetEpoch(), "err", err)
		}
	}
	if h := p.before.GetHolder(); h != nil && h.GetEpoch() < p.head.GetEpoch() {
		record(h, h.GetCoverage())
	}
	if o := p.before.GetOpening(); o != nil && o.GetEpoch() < p.head.GetEpoch() {
		record(o, novav1.Coverage_COVERAGE_ABANDONED)
	}
	record(p.head.GetHolder(), p.coverage)
}
