package gateway

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"nova.internal/libs/runtime"
)

func valid() Config {
	c := DefaultConfig()
	c.Oxia.Durable, c.Oxia.Ephemeral = "127.0.0.1:1", "127.0.0.1:1"
	return c
}

func TestABadSettingIsRefusedByTheNameOfItsFlag(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatalf("what is valid was refused: %v", err)
	}
	for flag, spoil := range map[string]func(*Config){
		"--listen":               func(c *Config) { c.Listen = "" },
		"--http":                 func(c *Config) { c.HTTP = "7080" },
		"--placer":               func(c *Config) { c.Placer = "placer" },
		"--nats":                 func(c *Config) { c.NATS = "http://127.0.0.1:4222" },
		"--standard-copies":      func(c *Config) { c.Standard = []string{"mem://a", "mem://b"} },
		"--express-copies":       func(c *Config) { c.Express = []string{"mem://a", "mem://b"} },
		"--open-timeout":         func(c *Config) { c.OpenTimeout = 0 },
		"--ask-timeout":          func(c *Config) { c.AskTimeout = 0 },
		"--read-timeout":         func(c *Config) { c.ReadTimeout = -time.Second },
		"--max-producer-handles": func(c *Config) { c.MaxHandles = 0 },
		"--remembered-holders":   func(c *Config) { c.Holders = 0 },
	} {
		c := valid()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestAGatewayWithoutItsMetastoreEndsAsStartedWrongly(t *testing.T) {
	c := valid()
	c.Oxia.RequestTimeout = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := Run(ctx, c, runtime.NewEnv("gateway", slog.New(slog.DiscardHandler)), func(Addrs) { t.Error("it serves") })
	if runtime.ExitCode(err) != runtime.ExitUsage || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("exit code %d: %v", runtime.ExitCode(err), err)
	}
}
