package oxiaembed

import (
	"context"
	"time"

	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server"
)

const (
	sessionPrefix = constant.InternalKeyPrefix + "session"
	// settleLooks and settlePause: a session that has begun to expire is gone within milliseconds, so the
	// same rows at three looks mean that none is on its way out. settleLimit is for a log that has stalled.
	settleLooks = 3
	settlePause = 10 * time.Millisecond
	settleLimit = time.Second
)

// settleSessions makes it safe to close the leader. Oxia closes a leader with its lock held and waits for
// each session; a session that is just expiring waits for the same lock, and both wait for ever. A heartbeat
// gives every session its whole timeout, at least 2 s, and those that had begun to expire are waited for.
func (s *shard) settleSessions() {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	for looks, before := 0, -1; looks < settleLooks; {
		rows, err := s.leader.ListBlock(ctx, &proto.ListRequest{
			Shard:          &s.id,
			StartInclusive: sessionPrefix + "/",
			EndExclusive:   sessionPrefix + "//",
		})
		if err != nil {
			return
		}
		for _, row := range rows {
			if id, err := server.KeyToId(row); err == nil {
				_ = s.leader.KeepAlive(int64(id)) // unknown: it has just expired
			}
		}
		if len(rows) == before {
			looks++
		} else {
			looks, before = 1, len(rows)
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return
		}
	}
}
