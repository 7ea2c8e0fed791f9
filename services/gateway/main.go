// Command gateway is the door of a nova fleet.
package main

import (
	"context"

	"nova.internal/libs/runtime"
	"nova.internal/services/gateway/gateway"
)

func main() {
	cfg := gateway.DefaultConfig()
	runtime.Main("gateway", "the door of a nova fleet: it brings producers and readers to the star that leads their stream", &cfg, func(ctx context.Context, env runtime.Env) error {
		return gateway.Run(ctx, cfg, env, func(a gateway.Addrs) { env.Log.Info("serving", "grpc", a.GRPC, "http", a.HTTP) })
	})
}
