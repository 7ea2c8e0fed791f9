package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"

	"nova.internal/libs/coord"
	"nova.internal/libs/events"
)

// Config is everything a gateway is started with.
type Config struct {
	Listen string // gRPC, HOST:PORT; port 0 picks one
	HTTP   string // health, metrics and the status page, HOST:PORT; empty: none
	Placer string // gRPC address; empty: decide by the own snapshot
	NATS   string // URL; empty: no events
	Oxia   coord.Config

	Standard []string // copy URLs of class standard; empty: every read goes to a star
	Express  []string // copy URLs of class express

	OpenTimeout time.Duration // bound of one open, whatever the caller's deadline
	AskTimeout  time.Duration // how long an open waits for one star before it looks again
	ReadTimeout time.Duration // how long a read may stand without any progress
	MaxHandles  int           // producer handles at once
	Holders     int           // streams whose holder is remembered

	takeWait time.Duration // how long after its source's end a handoff may still be taken
}

// DefaultConfig is a gateway as it runs in production, short of addresses and copies.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:0", Oxia: coord.DefaultConfig(),
		OpenTimeout: 15 * time.Second, AskTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, MaxHandles: 16384, Holders: 65536, takeWait: 15 * time.Second,
	}
}

// Flags registers the configuration's flags with what c holds as defaults.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Listen, "listen", c.Listen, "gRPC address, HOST:PORT; port 0 picks one")
	f.StringVar(&c.HTTP, "http", c.HTTP, "address of health, metrics and the status page, HOST:PORT; empty for none")
	f.StringVar(&c.Placer, "placer", c.Placer, "address of the placer, HOST:PORT; empty: decide by the own snapshot")
	f.StringVar(&c.NATS, "nats", c.NATS, "URL of NATS for events; empty for none")
	c.Oxia.Flags(f)
	f.StringSliceVar(&c.Standard, "standard-copies", c.Standard, "copy of class standard, as the stars have it; empty: reads go to the stars")
	f.StringSliceVar(&c.Express, "express-copies", c.Express, "copies of class express, as the stars have them; empty: reads go to the stars")
	f.DurationVar(&c.OpenTimeout, "open-timeout", c.OpenTimeout, "bound of one open, over redirects and retries")
	f.DurationVar(&c.AskTimeout, "ask-timeout", c.AskTimeout, "how long an open waits for one star's answer before it asks anew who leads")
	f.DurationVar(&c.ReadTimeout, "read-timeout", c.ReadTimeout, "how long a read may stand without progress before it is refused as unavailable")
	f.IntVar(&c.MaxHandles, "max-producer-handles", c.MaxHandles, "producer handles at once; more are refused")
	f.IntVar(&c.Holders, "remembered-holders", c.Holders, "streams whose holder is remembered")
}

// Validate says what is wrong with c in one line.
func (c Config) Validate() error {
	if err := c.Oxia.Validate(); err != nil {
		return err
	}
	if err := c.validateAddresses(); err != nil {
		return err
	}
	for flag, copies := range map[string][]string{"--standard-copies": c.Standard, "--express-copies": c.Express} {
		if len(copies) > 0 && len(copies)%2 == 0 {
			return fmt.Errorf("%s: a class has an odd number of copies, got %d", flag, len(copies))
		}
	}
	if c.NATS != "" {
		if err := events.CheckURL(c.NATS); err != nil {
			return fmt.Errorf("--nats: %w", err)
		}
	}
	switch {
	case c.OpenTimeout <= 0 || c.OpenTimeout > 5*time.Minute:
		return errors.New("--open-timeout: above 0, at most 5m")
	case c.AskTimeout <= 0:
		return errors.New("--ask-timeout: above 0")
	case c.ReadTimeout <= 0:
		return errors.New("--read-timeout: above 0")
	case c.MaxHandles < 1:
		return errors.New("--max-producer-handles: at least 1")
	case c.Holders < 1:
		return errors.New("--remembered-holders: at least 1")
	}
	return nil
}

func (c Config) validateAddresses() error {
	for flag, address := range map[string]string{"--listen": c.Listen, "--http": c.HTTP, "--placer": c.Placer} {
		if address == "" && flag != "--listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s: HOST:PORT is expected: %w", flag, err)
		}
	}
	return nil
}
