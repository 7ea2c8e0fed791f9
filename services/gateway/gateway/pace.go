package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 500 * time.Millisecond
	retryAsked = 2 * time.Second // most that a refusal's RetryInfo may ask for
)

// pace spreads tries: 50 to 500 ms apart, with jitter, from the start again after progress.
type pace struct{ b backoff.ExponentialBackOff }

func newPace() *pace {
	p := &pace{backoff.ExponentialBackOff{InitialInterval: retryFirst, RandomizationFactor: 0.2, Multiplier: 1.6, MaxInterval: retryMost}}
	p.reset()
	return p
}

func (p *pace) reset() { p.b.Reset() }

// wait waits for the next try, atLeast so long. It reports false when ctx ended first.
func (p *pace) wait(ctx context.Context, atLeast time.Duration) bool {
	timer := time.NewTimer(max(p.b.NextBackOff(), atLeast))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfter is how long the refusal err asks to be left alone, within reason.
func retryAfter(err error) time.Duration {
	var away *api.UnavailableError
	if errors.As(err, &away) {
		return min(away.RetryAfter, retryAsked)
	}
	return 0
}

// starError is what a star's answer stands for. A call that was cancelled on the way, not by the caller,
// is a broken connection.
func starError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && status.Code(err) == codes.Canceled {
		return &api.UnavailableError{Why: "the connection to the star was lost: " + status.Convert(err).Message()}
	}
	return api.FromError(err)
}

// silence is the refusal that a deadline of this gateway's own stands for: the caller, whose context is
// ctx, has set none that passed. The star may be the first to notice the deadline.
func silence(ctx context.Context, star target, err error) error {
	if status.Code(err) != codes.DeadlineExceeded || ctx.Err() != nil {
		return err
	}
	return &api.UnavailableError{Reason: novav1.Unavailable_REASON_HOLDER_UNREACHABLE, Why: fmt.Sprintf("star %s did not answer in time", star.star)}
}

// metastore turns a failure of Oxia into the refusal it stands for: it should not last.
func metastore(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, coord.ErrUnknown) || errors.Is(err, coord.ErrConflict) || errors.Is(err, context.DeadlineExceeded) {
		return &api.UnavailableError{Why: doing + ": " + err.Error(), RetryAfter: time.Second}
	}
	return err
}

func retryable(err error) bool {
	var away *api.UnavailableError
	return errors.As(err, &away)
}
