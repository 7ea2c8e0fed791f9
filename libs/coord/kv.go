package coord

import (
	"context"
	"errors"
	"fmt"

	"github.com/oxia-db/oxia/oxia"
)

// KV is what coord uses of an Oxia client. Tests wrap it to lose, delay and refuse calls. The context that
// a call gets ends when the client is closed, not when its caller gives up: see client.
type KV interface {
	Put(ctx context.Context, key string, value []byte, options ...oxia.PutOption) (string, oxia.Version, error)
	Delete(ctx context.Context, key string, options ...oxia.DeleteOption) error
	DeleteRange(ctx context.Context, from, to string, options ...oxia.DeleteRangeOption) error
	Get(ctx context.Context, key string, options ...oxia.GetOption) (string, []byte, oxia.Version, error)
	RangeScan(ctx context.Context, from, to string, options ...oxia.RangeScanOption) <-chan oxia.GetResult
	Close() error
}

var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("no such row")
	// ErrConflict: another writer's row stands at another version.
	ErrConflict = errors.New("conflict: another write came first")
	// ErrUnknown: the call may or may not have been carried out. Read before writing again.
	ErrUnknown = errors.New("outcome unknown")
	// ErrSessionLost: the session that should have carried the row is gone; nothing was written.
	ErrSessionLost = errors.New("the session with the fleet is gone")
)

// errClosed comes with ErrUnknown, for callers who retry: a client that is closed may have a successor.
var errClosed = errors.New("this client of oxia is closed")

// verdict turns an answer of the client into one of coord's outcomes. What the server has decided is
// known; everything else (timeouts, broken connections) is not.
func verdict(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, oxia.ErrKeyNotFound):
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	case errors.Is(err, oxia.ErrUnexpectedVersionId):
		return fmt.Errorf("%s: %w", doing, ErrConflict)
	case errors.Is(err, oxia.ErrUnknownStatus): // the one status that the client has no error for
		return fmt.Errorf("%s: %w", doing, ErrSessionLost)
	case errors.Is(err, oxia.ErrRequestTooLarge), errors.Is(err, oxia.ErrInvalidOptions):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, ErrUnknown):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnknown, err)
}

func isConflict(err error) bool    { return errors.Is(err, ErrConflict) }
func isNotFound(err error) bool    { return errors.Is(err, ErrNotFound) }
func isSessionLost(err error) bool { return errors.Is(err, ErrSessionLost) }

// condition is the option that makes a put conditional on the version that stands.
func condition(at Version) []oxia.PutOption {
	switch at {
	case Absent:
		return []oxia.PutOption{oxia.ExpectedRecordNotExists()}
	case anyVersion:
		return nil
	}
	return []oxia.PutOption{oxia.ExpectedVersionId(int64(at))}
}
