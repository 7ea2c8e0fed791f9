// Command placer answers where a stream belongs.
package main

import (
	"context"

	"nova.internal/libs/runtime"
	"nova.internal/services/placer/placer"
)

func main() {
	cfg := placer.DefaultConfig()
	runtime.Main("placer", "answers who leads a stream, or who would", &cfg, func(ctx context.Context, env runtime.Env) error {
		return placer.Run(ctx, cfg, env, func(a placer.Addrs) { env.Log.Info("serving", "grpc", a.GRPC, "http", a.HTTP) })
	})
}
