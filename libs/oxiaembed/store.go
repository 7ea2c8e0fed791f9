package oxiaembed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
	"github.com/oxia-db/oxia/server/kv"
)

// Where Oxia keeps what it must know of a store.
const (
	// storeOffsetKey holds the offset of the last entry that was applied, written in one batch with its effect.
	storeOffsetKey  = constant.InternalKeyPrefix + "commit-offset"
	storeVersionKey = constant.InternalKeyPrefix + "last-version-id"
	storeTermKey    = constant.InternalKeyPrefix + "term"
	storeOptionsKey = constant.InternalKeyPrefix + "term-options"
)

// checkStore reads all that a leader reads of its store when it is made. One that fails on the way leaves a
// goroutine behind which, minutes later, reads the store that was closed meanwhile, and so ends the process.
func checkStore(store kv.KV) error {
	for _, key := range []string{storeOffsetKey, storeVersionKey, storeTermKey} {
		if _, err := storeNumber(store, key); err != nil {
			return err
		}
	}
	options, found, err := storeRow(store, storeOptionsKey)
	if err == nil && found && !json.Valid(options) {
		err = errors.New("it is no JSON")
	}
	if err != nil {
		return fmt.Errorf("read %s from the store: %w", storeOptionsKey, err)
	}
	return nil
}

// storeOffset reads the last applied offset, -1 for none. Read at opening it is durable: what the store had
// in memory was lost with the process.
func storeOffset(store kv.KV) (int64, error) { return storeNumber(store, storeOffsetKey) }

// storeNumber reads a row that holds a number, -1 when there is none.
func storeNumber(store kv.KV, key string) (int64, error) {
	value, found, err := storeRow(store, key)
	if err == nil && !found {
		return -1, nil
	}
	var n int64
	if err == nil {
		n, err = strconv.ParseInt(string(value), 10, 64)
	}
	if err != nil {
		return 0, fmt.Errorf("read %s from the store: %w", key, err)
	}
	return n, nil
}

func storeRow(store kv.KV, key string) (value []byte, found bool, err error) {
	_, encoded, closer, err := store.Get(key, kv.ComparisonEqual)
	if errors.Is(err, kv.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var row proto.StorageEntry
	if err := errors.Join(kv.Deserialize(encoded, &row), closer.Close()); err != nil {
		return nil, false, err
	}
	return row.Value, true, nil
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
