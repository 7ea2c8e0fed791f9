package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"nova.internal/services/sequencer/star"
)

// Config is what a fleet in one process is started with.
type Config struct {
	Data   string // folder of everything it keeps
	Stars  int
	Listen string // the gateway's gRPC
	HTTP   string // health, metrics and the status page

	SessionTimeout time.Duration
	Star           star.Config // of every star, short of what the fleet fills in
}

// DefaultConfig is what `nova` without a flag runs.
func DefaultConfig() Config {
	return Config{Data: ".nova", Stars: 3, Listen: "127.0.0.1:7070", HTTP: "127.0.0.1:7080", SessionTimeout: 15 * time.Second, Star: star.DefaultConfig()}
}

// Flags registers the fleet's flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Data, "data", c.Data, "folder of everything the fleet keeps; made when absent, held by one process")
	f.IntVar(&c.Stars, "stars", c.Stars, "number of stars, 1 to 64")
	f.StringVar(&c.Listen, "listen", c.Listen, "gRPC address of the gateway, HOST:PORT; port 0 picks one")
	f.StringVar(&c.HTTP, "http", c.HTTP, "address of health, metrics and the status page, HOST:PORT; port 0 picks one")
	f.DurationVar(&c.SessionTimeout, "oxia-session-timeout", c.SessionTimeout, "how long a dead star's rows survive it; at least 3s")
	f.Var(&c.Star.MaxRecordBytes, "max-record-bytes", "largest record, in bytes")
	f.IntVar(&c.Star.MaxProducerSessions, "max-producer-sessions", c.Star.MaxProducerSessions, "producer handles at once on each star; more are refused")
	f.DurationVar(&c.Star.IdleTimeout, "idle-timeout", c.Star.IdleTimeout, "how long a leadership outlives its last producer on a stream of mode any")
	f.DurationVar(&c.Star.StopBudget, "exit-drain-budget", c.Star.StopBudget, "how long a stopping star may take in all")
}

// Validate says what is wrong with c in one line.
func (c Config) Validate() error {
	switch {
	case c.Data == "":
		return errors.New("--data: a folder is needed")
	case c.Stars < 1 || c.Stars > 64:
		return fmt.Errorf("--stars: 1 to 64, got %d", c.Stars)
	case c.Listen == "":
		return errors.New("--listen: an address is needed")
	}
	probe := c.Star // with what the fleet fills in, so that a bad flag is told before anything starts
	probe.Star, probe.Standard, probe.Express = "star-1", []string{"mem://a"}, []string{"mem://a"}
	probe.Oxia.Durable, probe.Oxia.Ephemeral, probe.Oxia.SessionTimeout = "-", "-", c.SessionTimeout
	return probe.Validate()
}

// InfraConfig is what `nova infra` is started with.
type InfraConfig struct {
	Data            string
	Oxia, Ephemeral string
	NATS            string
	Shards          int
	Remote          bool
}

// DefaultInfraConfig listens where the services' examples look.
func DefaultInfraConfig() InfraConfig {
	return InfraConfig{Data: ".nova-infra", Oxia: "127.0.0.1:6648", Ephemeral: "127.0.0.1:6649", NATS: "127.0.0.1:4222", Shards: 1}
}

// Flags registers the flags.
func (c *InfraConfig) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Data, "data", c.Data, "folder of everything it keeps; made when absent, held by one process")
	f.StringVar(&c.Oxia, "oxia", c.Oxia, "address of the durable Oxia instance, HOST:PORT; port 0 picks one")
	f.StringVar(&c.Ephemeral, "oxia-ephemeral", c.Ephemeral, "address of the ephemeral Oxia instance, HOST:PORT; port 0 picks one")
	f.StringVar(&c.NATS, "nats", c.NATS, "address of NATS, HOST:PORT; port 0 picks one")
	f.IntVar(&c.Shards, "shards", c.Shards, "shards of each Oxia instance")
	f.BoolVar(&c.Remote, "allow-remote", c.Remote, "permit addresses that are not loopback; neither Oxia nor NATS asks who calls")
}

// Validate says what is wrong with c in one line.
func (c InfraConfig) Validate() error {
	if c.Data == "" {
		return errors.New("--data: a folder is needed")
	}
	return nil
}
