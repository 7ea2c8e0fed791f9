package star

import (
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the embedded Oxia's own lines
	os.Exit(m.Run())
}
