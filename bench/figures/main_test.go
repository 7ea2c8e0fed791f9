package figures

import (
	"log/slog"
	"os"
	"testing"

	"nova.internal/bench/child"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the embedded servers' own lines
	child.Play(Roles())
	os.Exit(m.Run())
}
