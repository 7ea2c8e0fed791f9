package coord_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Oxia's own lines
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
	// A read under way when its client closes: the closed client still hands its answer over, to nobody.
	goleak.IgnoreAnyFunction("github.com/oxia-db/oxia/oxia.(*clientImpl).doSingleShardGet.func1"),
}
