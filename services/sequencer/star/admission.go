package star

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// admission bounds the bytes that a star holds in batches which it has read and not answered, over all its
// producers (--admission-bytes). A handle that finds it spent leaves the rest of what its producer sends in
// the socket, so that producers are slowed down and not refused; they are served in the order in which they
// came.
type admission struct {
	budget *semaphore.Weighted
	held   atomic.Int64
}

func newAdmission(bytes int64) *admission { return &admission{budget: semaphore.NewWeighted(bytes)} }

// take waits until bytes fit, or ctx ends.
func (a *admission) take(ctx context.Context, bytes int) error {
	if err := a.budget.Acquire(ctx, int64(bytes)); err != nil {
		return err
	}
	a.held.Add(int64(bytes))
	return nil
}

func (a *admission) give(bytes int) {
	a.held.Add(-int64(bytes))
	a.budget.Release(int64(bytes))
}
