package oxiaembed

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary runs a child's role instead of tests when roleEnv names one: what is to be killed, or to
// live on a disk of its own, must be another process.
const (
	roleEnv = "OXIAEMBED_TEST_ROLE"
	argEnv  = "OXIAEMBED_TEST_ARG"
)

var roles = map[string]func(arg string) error{
	"server": serverRole,
	"owner":  ownerRole,
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Oxia's own lines
	if role := os.Getenv(roleEnv); role != "" {
		if err := roles[role](os.Getenv(argEnv)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if code == 0 {
		// Oxia's client never ends the goroutine that asks for the shards; its Close forgets it.
		client := goleak.IgnoreAnyFunction("github.com/oxia-db/oxia/oxia/internal.(*shardManagerImpl).receiveWithRecovery")
		if err := goleak.Find(client); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}
