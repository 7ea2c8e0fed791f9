package coord

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
)

// MinSessionTimeout is the shortest session that a healthy star keeps: Oxia's client sends heartbeats no
// closer than two seconds apart.
const MinSessionTimeout = 3 * time.Second

// maxSessionTimeout is the longest that Oxia grants.
const maxSessionTimeout = 5 * time.Minute

// Config says where the metastore is.
type Config struct {
	Ephemeral string // address of the instance with /fleet
	Durable   string // address of the instance with /nova

	EphemeralNamespace string
	DurableNamespace   string

	SessionTimeout time.Duration // the fleet's failure-detection floor
	RequestTimeout time.Duration // of one call, and between two rows of a scan
	DialTimeout    time.Duration // how long an instance that does not answer yet is waited for

	Identity string // names the client in Oxia's rows and logs
	Log      *slog.Logger

	// Wrap is for tests: it may put faults between coord and Oxia. store is "durable" or "ephemeral". See
	// package coordtest.
	Wrap func(store string, kv KV) KV
}

// DefaultConfig is what a star uses, short of addresses.
func DefaultConfig() Config {
	return Config{
		EphemeralNamespace: "default", DurableNamespace: "default",
		SessionTimeout: 15 * time.Second, RequestTimeout: 3 * time.Second, DialTimeout: 10 * time.Second,
	}
}

// Flags registers the configuration's flags with what c holds as defaults.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Durable, "oxia", c.Durable, "address of the Oxia instance with the durable rows, HOST:PORT")
	f.StringVar(&c.Ephemeral, "oxia-ephemeral", c.Ephemeral, "address of the Oxia instance with the fleet's ephemeral rows, HOST:PORT")
	f.StringVar(&c.DurableNamespace, "oxia-namespace", c.DurableNamespace, "Oxia namespace of the durable rows")
	f.StringVar(&c.EphemeralNamespace, "oxia-ephemeral-namespace", c.EphemeralNamespace, "Oxia namespace of the ephemeral rows")
	f.DurationVar(&c.SessionTimeout, "oxia-session-timeout", c.SessionTimeout, "how long a dead star's rows survive it; at least 3s")
	f.DurationVar(&c.RequestTimeout, "oxia-request-timeout", c.RequestTimeout, "bound of one call to Oxia")
	f.DurationVar(&c.DialTimeout, "oxia-dial-timeout", c.DialTimeout, "how long to wait at start for an Oxia instance that does not answer yet")
}

// ephemeral is the instance with the fleet's rows.
func (c Config) ephemeral() instance {
	return instance{"ephemeral", c.Ephemeral, c.EphemeralNamespace}
}

// Validate says what is wrong with c in one line.
func (c Config) Validate() error {
	switch {
	case c.Durable == "":
		return errors.New("--oxia: the address of the durable Oxia instance is needed")
	case c.Ephemeral == "":
		return errors.New("--oxia-ephemeral: the address of the ephemeral Oxia instance is needed")
	case c.SessionTimeout < MinSessionTimeout || c.SessionTimeout > maxSessionTimeout:
		return fmt.Errorf("--oxia-session-timeout: %v to %v, since heartbeats are never closer than 2s; got %v", MinSessionTimeout, maxSessionTimeout, c.SessionTimeout)
	case c.RequestTimeout <= 0:
		return fmt.Errorf("--oxia-request-timeout: above 0; got %v", c.RequestTimeout)
	case c.DialTimeout <= 0:
		return fmt.Errorf("--oxia-dial-timeout: above 0; got %v", c.DialTimeout)
	case c.DurableNamespace == "" || c.EphemeralNamespace == "":
		return errors.New("--oxia-namespace, --oxia-ephemeral-namespace: a name is needed")
	}
	return nil
}
