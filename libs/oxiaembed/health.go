package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/oxia-db/oxia/common/rpc"
)

const (
	watchPeriod  = time.Second
	watchTimeout = 5 * time.Second
)

// Healthy says why the server cannot do all of its work, and nil when it can. Every shard is read from. A
// failed log stays failed until the folder is started again; everything else heals by itself.
func (s *Server) Healthy(ctx context.Context) error {
	if s.front.closing.Err() != nil {
		return ErrClosed
	}
	errs := []error{s.space()}
	for _, shard := range s.front.shards {
		errs = append(errs, shard.health(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("oxiaembed: %w", err)
	}
	return nil
}

// space compares the free space with the floor and lets the front refuse writes below it. What Oxia writes by
// itself, such as the end of a session, goes on: the floor is kept for that and for the store's own work.
func (s *Server) space() error {
	free, err := freeBytes(s.config.Dir)
	if err != nil {
		return fmt.Errorf("ask for the free space: %w", err)
	}
	low := free < s.config.MinFreeBytes
	s.front.lowSpace.Store(low)
	if low {
		return fmt.Errorf("the disk has %d bytes free, below %d: writes are refused", free, s.config.MinFreeBytes)
	}
	return nil
}

// watch keeps the gRPC health service and the refusal of writes up to date until the server closes.
func (s *Server) watch() {
	defer close(s.watched)
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	var before error
	for {
		select {
		case <-tick.C:
		case <-s.failed:
		case <-s.front.closing.Done():
			return
		}
		before = s.look(before)
	}
}

// look asks once, tells the health service, and writes a line when the answer changed.
func (s *Server) look(before error) error {
	ctx, cancel := context.WithTimeout(s.front.closing, watchTimeout)
	defer cancel()
	err := s.Healthy(ctx)
	if s.front.closing.Err() != nil {
		return before // what a closing server cannot do is no news
	}
	serving := grpc_health_v1.HealthCheckResponse_SERVING
	if err != nil {
		serving = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", serving)
	s.health.SetServingStatus(rpc.ReadinessProbeService, serving)
	switch {
	case err != nil && before == nil:
		s.config.Logger.Error("oxia is unhealthy", "error", err)
	case err == nil && before != nil:
		s.config.Logger.Info("oxia is healthy again")
	}
	return err
}

// lookNow wakes the watch. It runs on a committer.
func (s *Server) lookNow() {
	select {
	case s.failed <- struct{}{}:
	default:
	}
}
