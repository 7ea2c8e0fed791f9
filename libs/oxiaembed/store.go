package oxiaembed

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server/kv"
)

// storeOffsetKey is where Oxia keeps the offset of the last entry it applied, in the same batch as its effect.
const storeOffsetKey = constant.InternalKeyPrefix + "commit-offset"

// storeOffset reads the last applied offset, -1 for none. Read at opening it is durable: the store's memory
// was lost with the process.
func storeOffset(store kv.KV) (int64, error) {
	_, value, closer, err := store.Get(storeOffsetKey, kv.ComparisonEqual)
	if errors.Is(err, kv.ErrKeyNotFound) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the store's offset: %w", err)
	}
	var row proto.StorageEntry
	if err := errors.Join(kv.Deserialize(value, &row), closer.Close()); err != nil {
		return 0, fmt.Errorf("read the store's offset: %w", err)
	}
	offset, err := strconv.ParseInt(string(row.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the store's offset: %w", err)
	}
	return offset, nil
}

func (s *shard) noteRoll() {
	select {
	case s.rolled <- struct{}{}:
	default: // the trimmer has one to look at already
	}
}

// trimOnRoll drops log segments that the store has made needless. Oxia trims its log by age and trusts that
// the store was flushed meanwhile, which nothing ensures; here the flush comes first, so that what the log
// drops is always durable in the store.
func (s *shard) trimOnRoll(ctx context.Context) {
	defer close(s.trimmed)
	for {
		select {
		case <-s.rolled:
		case <-ctx.Done():
			return
		}
		if s.log.Segments() <= keepSegments {
			continue
		}
		if err := s.flushAndTrim(); err != nil && ctx.Err() == nil {
			s.logger.Warn("the write-ahead log was not trimmed; it is tried again at the next segment", "error", err)
		}
	}
}

func (s *shard) flushAndTrim() error {
	applied, err := storeOffset(s.store) // before the flush: what is applied meanwhile may stay in memory
	if err != nil {
		return err
	}
	if err := s.store.Flush(); err != nil {
		return fmt.Errorf("flush the store: %w", err)
	}
	return s.log.Trim(applied)
}
