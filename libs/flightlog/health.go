package flightlog

import (
	"context"
	"sync"
)

// Health is what one copy of a class answers about itself.
type Health struct {
	Copy     string
	Identity string // that it holds; empty: it is blank or does not answer
	Err      error  // nil: it answers and is the store it is known as, so it votes and takes puts
}

// Health asks every copy at once which store it is.
func (c *Copies) Health(ctx context.Context) []Health {
	ctx, cancel := context.WithTimeout(ctx, voteTimeout)
	defer cancel()
	health := make([]Health, len(c.List))
	var all sync.WaitGroup
	for i, one := range c.List {
		all.Go(func() {
			var id string
			var err error
			if a, ok := one.(*admitted); ok {
				id, err = a.identify(ctx)
			} else {
				id, err = Identify(ctx, one)
			}
			health[i] = Health{one.Name(), id, err}
		})
	}
	all.Wait()
	return health
}
