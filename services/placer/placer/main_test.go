package placer

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the embedded Oxia's own lines
	goleak.VerifyTestMain(m,
		// Oxia's client does not end this one when it is closed (v0.14.0).
		goleak.IgnoreAnyFunction("github.com/oxia-db/oxia/oxia/internal.(*shardManagerImpl).receiveWithRecovery"))
}
