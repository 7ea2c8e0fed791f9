package star

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
)

// storageAway is what the liveness row says of a star that has resigned for want of storage.
const storageAway = "its object storage does not answer"

// watchStorage resigns when the oldest undecided slot has waited for --storage-timeout: the star still
// heartbeats, so nobody else would take its streams, and it cannot acknowledge anything more.
func (s *Star) watchStorage(ctx context.Context) {
	for sleep(ctx, min(time.Second, s.cfg.StorageTimeout/10)) {
		inc := s.current()
		if age := inc.oldestUndecided(); age > s.cfg.StorageTimeout {
			s.resign(ctx, inc, age)
		}
	}
}

// resign ends the incarnation and begins one that may lead nothing, until a put reaches a quorum again.
//
// The old chains end as a dead star's do: their incarnation is no more in the liveness row, so the next
// opener of each stream fences them once the storage answers. What was undecided was answered "unknown";
// a put of it that lands later is in the sealed prefix, and recovered, or behind the seal, and nothing.
func (s *Star) resign(ctx context.Context, inc *incarnation, age time.Duration) {
	why := fmt.Errorf("%s: a flight has been undecided for %v", storageAway, age.Round(time.Millisecond))
	s.health.Set("storage", why)
	s.replace(inc, why, storageAway)
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := s.storageAnswers(ctx)
		if err == nil {
			err = s.registration.Load().Update(ctx, func(row *novav1.StarRow) { row.Ineligible = "" })
		}
		if err == nil {
			s.health.Set("storage", nil)
			s.log.Info("the object storage answers; this star leads again")
			return
		}
		s.log.Debug("this star may not lead yet", "err", err)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// oldestUndecided is the age of the oldest flight of any class that no quorum holds yet.
func (inc *incarnation) oldestUndecided() (age time.Duration) {
	for _, c := range inc.chains {
		age = max(age, c.writer.State().OldestAge)
	}
	return age
}

// storageAnswers puts and reads an object on every copy, and errs when a class misses its quorum.
func (s *Star) storageAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StorageTimeout)
	defer cancel()
	for class, set := range s.copies {
		faults := make(chan error, len(set.List))
		var all sync.WaitGroup
		for _, c := range set.List {
			all.Go(func() { faults <- flightlog.Probe(ctx, c) })
		}
		all.Wait()
		close(faults)
		good, last := 0, error(nil)
		for err := range faults {
			if err == nil {
				good++
			} else {
				last = err
			}
		}
		if good < set.Quorum() {
			return fmt.Errorf("%d of %d copies of class %s take puts: %w", good, len(set.List), flightlog.ClassName(class), last)
		}
	}
	return nil
}
