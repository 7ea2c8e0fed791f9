package coord

import (
	"context"
	"fmt"
	"time"

	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/common/rpc"
	"github.com/oxia-db/oxia/oxia"
	"github.com/oxia-db/oxia/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// instance is one of the two Oxia instances, as a client is made for it.
type instance struct {
	name      string // "durable" or "ephemeral": what flags and errors call it
	address   string
	namespace string
}

const (
	probePause = 200 * time.Millisecond
	// probeLimit bounds one look at the server, so that one that accepts and says nothing is looked at again.
	probeLimit = 3 * time.Second
)

// dial makes a client once the instance has answered. It waits for that up to cfg.DialTimeout, since
// services start in any order.
func dial(ctx context.Context, cfg Config, at instance, linger time.Duration) (*client, error) {
	limited, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	began := time.Now()
	// Where Oxia's client is made in vain it leaves a connection and a goroutine behind that ask for ever.
	err := reach(limited, at)
	var kv KV
	if err == nil {
		kv, err = connect(limited, cfg, at, linger)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, fmt.Errorf("no answer from oxia (%s) at %s within %v: %w; is it running there, and is the address right?",
			at.name, at.address, time.Since(began).Round(time.Millisecond), err)
	}
	if cfg.Wrap != nil {
		kv = cfg.Wrap(at.name, kv)
	}
	return newClient(kv, cfg.RequestTimeout), nil
}

// reach asks the instance for its shards until it answers, refuses for good, or ctx ends.
func reach(ctx context.Context, at instance) error {
	var last error
	for {
		err := ask(ctx, at)
		if err == nil {
			return nil
		}
		if final(err) {
			return err
		}
		if ctx.Err() == nil || last == nil { // what the server said is worth more than that time ran out
			last = err
		}
		select {
		case <-time.After(probePause):
		case <-ctx.Done():
			return last
		}
	}
}

// ask gets the shards once, over a connection of its own.
func ask(ctx context.Context, at instance) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	pool := rpc.NewClientPool(nil, nil)
	defer func() { _ = pool.Close() }()
	server, err := pool.GetClientRpc(at.address)
	if err != nil {
		return err
	}
	stream, err := server.GetShardAssignments(ctx, &proto.ShardAssignmentsRequest{Namespace: at.namespace})
	if err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	if len(answer.GetNamespaces()[at.namespace].GetAssignments()) == 0 {
		return fmt.Errorf("namespace %q has no shards yet", at.namespace)
	}
	return nil
}

// final says whether asking again will bring the same: another service at the address, no such namespace,
// no permission.
func final(err error) bool {
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied, constant.CodeNamespaceNotFound:
		return true
	}
	return false
}

// patient takes the answer of every read, also when the client is being closed: see client.
type patient struct{ oxia.SyncClient }

func (p patient) Get(ctx context.Context, key string, options ...oxia.GetOption) (string, []byte, oxia.Version, error) {
	return p.SyncClient.Get(context.WithoutCancel(ctx), key, options...)
}

// connect makes Oxia's client, whose own dial takes no context.
func connect(ctx context.Context, cfg Config, at instance, linger time.Duration) (KV, error) {
	options := []oxia.ClientOption{
		oxia.WithNamespace(at.namespace), oxia.WithBatchLinger(linger),
		oxia.WithRequestTimeout(cfg.RequestTimeout), oxia.WithSessionTimeout(cfg.SessionTimeout),
	}
	if cfg.Identity != "" {
		options = append(options, oxia.WithIdentity(cfg.Identity))
	}
	type made struct {
		kv  KV
		err error
	}
	done := make(chan made, 1)
	go func() {
		kv, err := oxia.NewSyncClient(at.address, options...)
		done <- made{patient{kv}, err}
	}()
	select {
	case m := <-done:
		return m.kv, m.err
	case <-ctx.Done():
		go func() { // it ends by its own request timeout
			if m := <-done; m.err == nil {
				_ = m.kv.Close()
			}
		}()
		return nil, ctx.Err()
	}
}
