package star

import (
	"flag"
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the embedded Oxia's own lines
	flag.Parse()
	// The parallel tests mostly wait, for sessions to end: far more of them fit than there are cores.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
