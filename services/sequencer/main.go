// Command sequencer is one star of a nova fleet.
package main

import (
	"context"

	"nova.internal/libs/runtime"
	"nova.internal/services/sequencer/star"
)

func main() {
	cfg := star.DefaultConfig()
	runtime.Main("sequencer", "one star of a nova fleet: it leads streams and writes their records to object storage", &cfg, func(ctx context.Context, env runtime.Env) error {
		return star.Run(ctx, cfg, env, func(a star.Addrs) { env.Log.Info("serving", "grpc", a.GRPC, "http", a.HTTP) })
	})
}
