package oxiaembed

import (
	"log/slog"
	"os"
	"testing"
)

// childEnv makes the test binary run a server instead of tests: the one that is killed.
const childEnv = "OXIAEMBED_CHILD_DIR"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Oxia's own lines
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}
