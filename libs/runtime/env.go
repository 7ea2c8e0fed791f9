package runtime

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
)

// version is set when a binary is built for use.
var version = "dev"

// Version is the software's version.
func Version() string { return version }

// Env is what a running service is given: where it logs, counts and says how it is.
type Env struct {
	Name    string
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Health  *Health
	// Gatherer is what /metrics shows: Metrics, unless the service speaks for others too.
	Gatherer prometheus.Gatherer
}

// NewEnv returns an Env of its own. Any number may live in one process.
func NewEnv(name string, log *slog.Logger) Env {
	metrics := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "nova_build_info", Help: "Always 1; the labels say what runs.", ConstLabels: prometheus.Labels{"service": name, "version": version}})
	build.Set(1)
	metrics.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return Env{Name: name, Log: log, Metrics: metrics, Health: NewHealth(), Gatherer: metrics}
}

// logging is the flags of every binary's logger.
type logging struct{ level, format string }

func (l *logging) flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", l.level, "debug, info, warn or error")
	f.StringVar(&l.format, "log-format", l.format, "text, json, or auto: text on a terminal")
}

func (l *logging) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case l.format == "json", l.format == "auto" && !terminal(w):
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case l.format == "text", l.format == "auto":
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is none of text, json, auto", l.format)
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// atLeast passes records on from a level on.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (a atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= a.level && a.Handler.Enabled(ctx, level)
}

func (a atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{a.Handler.WithAttrs(attrs), a.level}
}
func (a atLeast) WithGroup(name string) slog.Handler {
	return atLeast{a.Handler.WithGroup(name), a.level}
}
