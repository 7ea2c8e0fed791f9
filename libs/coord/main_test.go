package coord_test

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Oxia's own lines go nowhere, but through a handler that locks. Its client forgets a lost session under
	// a lock that its Close does not take; the line that it logs afterwards, and coord's before the close,
	// are what orders the two for the race detector.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" {
		_ = flag.Set("test.parallel", "16") // what waits for a session's end waits together
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(oxiaLeaks...); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// oxiaLeaks are the goroutines of Oxia's client that nothing ends.
var oxiaLeaks = []goleak.Option{
	// It asks for the shards; the client's Close forgets it.
	goleak.IgnoreAnyFunction("github.com/oxia-db/oxia/oxia/internal.(*shardManagerImpl).receiveWithRecovery"),
}
