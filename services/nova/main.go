// Command nova is a whole fleet in one process, for trying and for tests; `nova infra` starts only the
// embedded Oxia and NATS, for services that run as processes of their own.
package main

import (
	"context"
	"fmt"
	"os"

	"nova.internal/libs/runtime"
	"nova.internal/services/nova/fleet"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "infra" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		cfg := fleet.DefaultInfraConfig()
		runtime.Main("nova infra", "embedded Oxia and NATS for the services of a fleet in development", &cfg, func(ctx context.Context, env runtime.Env) error {
			return fleet.RunInfra(ctx, cfg, env, func(a fleet.InfraAddrs) { fmt.Print(a.Greeting()) })
		})
		return
	}
	cfg := fleet.DefaultConfig()
	runtime.Main("nova", "a whole fleet in one process: Oxia and NATS embedded, stars, placer and gateway", &cfg, func(ctx context.Context, env runtime.Env) error {
		return fleet.Run(ctx, cfg, env, func(a fleet.Addrs) { fmt.Print(a.Greeting()) })
	})
}
