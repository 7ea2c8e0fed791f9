package star

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"nova.internal/libs/api"
	"nova.internal/libs/coord"
	"nova.internal/libs/events"
	"nova.internal/libs/runtime"
)

// Config is everything a star is started with.
type Config struct {
	Star      string // identity
	Location  string // where it runs; shown, and free in form
	Listen    string // gRPC, HOST:PORT; port 0 picks one
	Advertise string // address that peers and clients are given; empty: the bound one
	HTTP      string // health and metrics, HOST:PORT; empty: none
	Placer    string // gRPC address; empty: this star decides by itself
	NATS      string // URL; empty: no events
	Oxia      coord.Config

	Standard []string // copy URLs of class standard: an odd number, 1 as a rule
	Express  []string // copy URLs of class express: an odd number, 3 as a rule

	StandardLinger time.Duration
	ExpressLinger  time.Duration
	FlightBytes    runtime.Bytes
	FlightDepth    int

	MaxRecordBytes      runtime.Bytes
	MaxBatchBytes       runtime.Bytes
	MaxProducerSessions int
	AdmissionBytes      runtime.Bytes
	TailCacheBytes      runtime.Bytes

	IdleTimeout    time.Duration
	AbsorbInterval time.Duration
	AbsorbAge      time.Duration
	AbsorbRefs     int
	SettleInterval time.Duration
	SweepInterval  time.Duration
	StorageTimeout time.Duration
	StatsInterval  time.Duration
	ScrubInterval  time.Duration // between passes over the copies; 0: none
	ScrubBytes     runtime.Bytes // that a pass reads a second; 0: as fast as it can
	StopBudget     time.Duration
}

// DefaultConfig is a star as it runs in production, short of addresses and copies.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:0", Oxia: coord.DefaultConfig(),
		StandardLinger: 20 * time.Millisecond, ExpressLinger: 2 * time.Millisecond,
		FlightBytes: 2 << 20, FlightDepth: 4,
		MaxRecordBytes: 8 << 20, MaxBatchBytes: 16 << 20, MaxProducerSessions: 4096, AdmissionBytes: 256 << 20, TailCacheBytes: 64 << 20,
		IdleTimeout: 30 * time.Second, AbsorbInterval: 10 * time.Second, AbsorbAge: 30 * time.Second, AbsorbRefs: 512,
		SettleInterval: 5 * time.Second, SweepInterval: 10 * time.Second, StorageTimeout: 10 * time.Second, StatsInterval: 5 * time.Second, StopBudget: 30 * time.Second,
		ScrubInterval: 6 * time.Hour, ScrubBytes: 16 << 20,
	}
}

// Flags registers the configuration's flags with what c holds as defaults.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Star, "star", c.Star, "identity of this star: letters, digits, '-' and '_'")
	f.StringVar(&c.Location, "location", c.Location, "where this star runs, e.g. a zone")
	f.StringVar(&c.Listen, "listen", c.Listen, "gRPC address, HOST:PORT; port 0 picks one")
	f.StringVar(&c.Advertise, "advertise", c.Advertise, "address that peers and clients use, HOST:PORT (default the bound one)")
	f.StringVar(&c.HTTP, "http", c.HTTP, "address of health and metrics, HOST:PORT; empty for none")
	f.StringVar(&c.Placer, "placer", c.Placer, "address of the placer, HOST:PORT; empty: decide by the own snapshot")
	f.StringVar(&c.NATS, "nats", c.NATS, "URL of NATS for events; empty for none")
	c.Oxia.Flags(f)
	f.StringSliceVar(&c.Standard, "standard-copies", c.Standard, "copy of class standard, e.g. file:///srv/nova/a (an odd number)")
	f.StringSliceVar(&c.Express, "express-copies", c.Express, "copies of class express (an odd number)")
	f.DurationVar(&c.StandardLinger, "flight-linger", c.StandardLinger, "how long a standard flight stays open while others are in the pipeline")
	f.DurationVar(&c.ExpressLinger, "express-flight-linger", c.ExpressLinger, "how long an express flight stays open while others are in the pipeline")
	f.Var(&c.FlightBytes, "flight-bytes", "bytes at which a flight closes")
	f.IntVar(&c.FlightDepth, "flight-depth", c.FlightDepth, "flights of a chain that may be in the pipeline at once")
	f.Var(&c.MaxRecordBytes, "max-record-bytes", "largest record, in bytes")
	f.Var(&c.MaxBatchBytes, "max-batch-bytes", "largest batch, in bytes")
	f.IntVar(&c.MaxProducerSessions, "max-producer-sessions", c.MaxProducerSessions, "producer handles at once; more are refused")
	f.Var(&c.AdmissionBytes, "admission-bytes", "bytes of unanswered batches held at once over all producers; beyond it producers are slowed down")
	f.Var(&c.TailCacheBytes, "tail-cache-bytes", "bytes of recent records kept in memory for readers at the tail")
	f.DurationVar(&c.IdleTimeout, "idle-timeout", c.IdleTimeout, "how long a leadership outlives its last producer on a stream of mode any")
	f.DurationVar(&c.AbsorbInterval, "absorb-interval", c.AbsorbInterval, "how often un-absorbed records are looked at")
	f.DurationVar(&c.AbsorbAge, "absorb-age", c.AbsorbAge, "age at which a stream's records are published as a segment")
	f.IntVar(&c.AbsorbRefs, "absorb-refs", c.AbsorbRefs, "batches at which a stream's records are published as a segment")
	f.DurationVar(&c.SettleInterval, "settle-interval", c.SettleInterval, "how often dead chains are looked for")
	f.DurationVar(&c.SweepInterval, "sweep-interval", c.SweepInterval, "how often the leases in this star's name are held against what it leads")
	f.DurationVar(&c.StorageTimeout, "storage-timeout", c.StorageTimeout, "how long a flight may wait for its copies before the star resigns")
	f.DurationVar(&c.StatsInterval, "stats-interval", c.StatsInterval, "how often load is published")
	f.DurationVar(&c.ScrubInterval, "scrub-interval", c.ScrubInterval, "pause between passes that look for damaged and missing objects on the copies; 0: none")
	f.Var(&c.ScrubBytes, "scrub-bytes-per-second", "bytes that such a pass reads a second; 0: as fast as it can")
	f.DurationVar(&c.StopBudget, "exit-drain-budget", c.StopBudget, "how long a stopping star may take in all")
}

// Validate says what is wrong with c in one line.
func (c Config) Validate() error {
	if err := api.CheckStarName(c.Star); err != nil {
		return fmt.Errorf("--star: %w", err)
	}
	if err := c.Oxia.Validate(); err != nil {
		return err
	}
	for flag, copies := range map[string][]string{"--standard-copies": c.Standard, "--express-copies": c.Express} {
		if len(copies)%2 == 0 {
			return fmt.Errorf("%s: a class has an odd number of copies, got %d", flag, len(copies))
		}
	}
	if c.NATS != "" {
		if err := events.CheckURL(c.NATS); err != nil {
			return fmt.Errorf("--nats: %w", err)
		}
	}
	switch {
	case c.FlightBytes < 4<<10 || c.FlightBytes > 64<<20:
		return errors.New("--flight-bytes: 4KiB to 64MiB")
	case c.FlightDepth < 1 || c.FlightDepth > 64:
		return errors.New("--flight-depth: 1 to 64")
	case c.MaxRecordBytes < 1 || c.MaxRecordBytes+1024 > c.MaxBatchBytes:
		return errors.New("--max-record-bytes: at least 1, and 1KiB below --max-batch-bytes")
	case c.MaxBatchBytes > api.MaxMessageBytes-(1<<20):
		return fmt.Errorf("--max-batch-bytes: at most %d", api.MaxMessageBytes-(1<<20))
	case c.AdmissionBytes < c.MaxBatchBytes:
		return errors.New("--admission-bytes: at least --max-batch-bytes")
	case c.MaxProducerSessions < 1:
		return errors.New("--max-producer-sessions: at least 1")
	case c.AbsorbInterval <= 0 || c.SettleInterval <= 0 || c.SweepInterval <= 0 || c.StatsInterval <= 0 || c.IdleTimeout <= 0:
		return errors.New("--absorb-interval, --settle-interval, --sweep-interval, --stats-interval and --idle-timeout: above 0")
	case c.StorageTimeout < 100*time.Millisecond:
		return errors.New("--storage-timeout: at least 100ms")
	case c.ScrubInterval < 0:
		return errors.New("--scrub-interval: 0 or above")
	}
	return nil
}
