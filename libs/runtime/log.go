package runtime

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
)

// logging is the flags of every binary's logger.
type logging struct{ level, format string }

func (l *logging) flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", l.level, "debug, info, warn or error")
	f.StringVar(&l.format, "log-format", l.format, "text, json, or auto: text on a terminal")
}

func (l *logging) parse() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return 0, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", l.level)
	}
	return level, nil
}

func (l *logging) logger(w io.Writer) (*slog.Logger, error) {
	level, err := l.parse()
	if err != nil {
		return nil, err
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

// libraries is the logger of packages that log by themselves, such as Oxia's client, which repeats a
// warning for every attempt at a server that is away. They are heard from errors on, so that a failed
// start is one line; at --log-level=debug everything is heard.
func libraries(log *slog.Logger) *slog.Logger {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		return log
	}
	return slog.New(atLeast{log.Handler(), slog.LevelError})
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
