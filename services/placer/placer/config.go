package placer

import (
	"errors"

	"github.com/spf13/pflag"

	"nova.internal/libs/coord"
)

// Config is what a placer is started with.
type Config struct {
	Listen string
	HTTP   string // empty: none
	Oxia   coord.Config
}

// DefaultConfig is a placer short of addresses.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:0", Oxia: coord.DefaultConfig()}
}

// Flags registers the configuration's flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Listen, "listen", c.Listen, "gRPC address, HOST:PORT; port 0 picks one")
	f.StringVar(&c.HTTP, "http", c.HTTP, "address of health and metrics, HOST:PORT; empty for none")
	c.Oxia.Flags(f)
}

// Validate says what is wrong with c in one line.
func (c Config) Validate() error {
	if c.Listen == "" {
		return errors.New("--listen: an address is needed")
	}
	return c.Oxia.Validate()
}
