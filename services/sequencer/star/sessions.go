package star

import (
	"sync/atomic"
	"time"

	"nova.internal/libs/api"
)

// sessions counts producer handles against --max-producer-sessions. A handle beyond the bound is shed.
type sessions struct {
	bound int64
	open  atomic.Int64
	shed  func(bound string)
}

func (c *sessions) admit() error {
	if c.open.Add(1) > c.bound {
		c.open.Add(-1)
		c.shed("max-producer-sessions")
		return &api.BoundError{Name: "max-producer-sessions", Limit: c.bound, RetryAfter: time.Second}
	}
	return nil
}

func (c *sessions) leave() { c.open.Add(-1) }
