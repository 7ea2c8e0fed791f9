package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/oxia-db/oxia/common/concurrent"
	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server"
	"github.com/oxia-db/oxia/server/kv"
	"github.com/oxia-db/oxia/server/wal"

	"nova.internal/libs/oxiaembed/internal/orderlog"
)

const (
	// stallAfter is how long one batch may take before the shard calls itself unhealthy: the store stops
	// taking writes, without an error, while it cannot flush.
	stallAfter = 10 * time.Second
	// keepSegments is how many log files there may be before the store is flushed and the log trimmed.
	keepSegments = 2
	// notificationRetention is how long a change can still be asked for.
	notificationRetention = time.Hour
)

// shard is one shard with the leader that serves it: there is no follower, and so no election.
type shard struct {
	id     int64
	leader server.LeaderController
	log    *orderlog.Log
	store  kv.KV
	logger *slog.Logger

	rolled  chan struct{} // the log began a segment
	stop    context.CancelFunc
	trimmed chan struct{} // the trimmer has ended
}

// openShard opens the store and the log, replays what the store has not yet, and begins a new term. Sessions
// that were open start again with their whole timeout.
func openShard(c Config, id int64, stores kv.Factory, failed func()) (_ *shard, err error) {
	s := &shard{
		id:      id,
		logger:  c.Logger.With("shard", id),
		rolled:  make(chan struct{}, 1),
		trimmed: make(chan struct{}),
	}
	defer func() {
		// Oxia and its store answer some damage with a panic.
		if r := recover(); r != nil {
			c.Logger.Error("panic while opening a shard", "shard", id, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil {
			err = fmt.Errorf("open shard %d: %w", id, errors.Join(err, s.abandon()))
		}
	}()
	if s.store, err = stores.NewKV(constant.DefaultNamespace, id); err != nil {
		return nil, err
	}
	if err := checkStore(s.store); err != nil {
		return nil, err
	}
	applied, err := storeOffset(s.store)
	if err != nil {
		return nil, err
	}
	s.log, err = orderlog.Open(orderlog.Options{
		Dir:        filepath.Join(c.Dir, "log", fmt.Sprintf("shard-%d", id)),
		Sync:       c.Sync,
		Applied:    applied,
		GapTimeout: c.gapTimeout,
		OnFail:     func(error) { failed() },
		OnRoll:     s.noteRoll,
		Logger:     s.logger,
	})
	if err != nil {
		return nil, err
	}
	if err := s.lead(c, stores); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.trimOnRoll(ctx)
	s.noteRoll() // what a run before this one left
	return s, nil
}

// lead makes this process the shard's leader in a new term. Becoming leader applies the log's entries that
// the store does not have.
func (s *shard) lead(c Config, stores kv.Factory) error {
	leader, err := server.NewLeaderController(
		server.Config{NotificationsRetentionTime: notificationRetention},
		constant.DefaultNamespace, s.id, nil, openedLog{s.log}, openedStore{stores, s.store})
	if err != nil {
		return err
	}
	s.leader = leader
	term := leader.Term() + 1
	if _, err := leader.NewTerm(&proto.NewTermRequest{
		Shard:   s.id,
		Term:    term,
		Options: &proto.NewTermOptions{EnableNotifications: c.Notifications},
	}); err != nil {
		return fmt.Errorf("begin term %d: %w", term, err)
	}
	if _, err := leader.BecomeLeader(context.Background(), &proto.BecomeLeaderRequest{
		Shard:             s.id,
		Term:              term,
		ReplicationFactor: 1,
		FollowerMaps:      map[string]*proto.EntryId{},
	}); err != nil {
		return fmt.Errorf("lead in term %d: %w", term, err)
	}
	return nil
}

// abandon gives back what a failed opening holds. Closing twice is harmless to each part.
func (s *shard) abandon() error {
	var err error
	if s.leader != nil {
		err = s.leader.Close()
	}
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

// close ends the shard; no request may be under way. The leader closes the log and the store.
func (s *shard) close() error {
	s.stop()
	<-s.trimmed
	s.settleSessions()
	return s.leader.Close()
}

// health says why the shard cannot serve; nil when it can.
func (s *shard) health(ctx context.Context) error {
	if err := s.log.Err(); err != nil {
		return fmt.Errorf("shard %d takes no writes until it is started again: %w", s.id, err)
	}
	if busy := s.log.Busy(); busy > stallAfter {
		return fmt.Errorf("shard %d has been at one write for %v", s.id, busy.Round(time.Second))
	}
	if status := s.leader.Status(); status != proto.ServingStatus_LEADER {
		return fmt.Errorf("shard %d is %v, not leader", s.id, status)
	}
	answer := make(chan error, 1)
	s.leader.Read(ctx, &proto.ReadRequest{Shard: &s.id, Gets: []*proto.GetRequest{{Key: storeOffsetKey}}},
		concurrent.NewStreamOnce(
			func(*proto.GetResponse) error { return nil },
			func(err error) { answer <- err }))
	select {
	case err := <-answer:
		if err != nil {
			return fmt.Errorf("read from shard %d: %w", s.id, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read from shard %d: %w", s.id, ctx.Err())
	}
}

// openedLog and openedStore hand the leader what openShard opened: the log must know, before it opens, what
// the store has, and the leader would open them the other way round.
type openedLog struct{ log *orderlog.Log }

func (o openedLog) NewWal(string, int64, wal.CommitOffsetProvider) (wal.Wal, error) {
	return o.log, nil
}
func (o openedLog) Close() error { return nil }

type openedStore struct {
	kv.Factory
	store kv.KV
}

func (o openedStore) NewKV(string, int64) (kv.KV, error) { return o.store, nil }
