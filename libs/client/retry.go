package client

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
)

// fatal reports whether no retry can heal what err says. What it does not know is retried: every retry
// here ends at some deadline.
func fatal(err error) bool {
	var (
		field       *api.FieldError
		fenced      *api.FencedError
		refused     *api.RefusedError
		notOwner    *api.NotOwnerError
		bound       *api.BoundError
		unavailable *api.UnavailableError
		order       *api.OutOfOrderError
		corrupt     *CorruptError
	)
	switch {
	case errors.As(err, &field):
		return field.Field != "crc32c" // damaged on the way: the same bytes may arrive whole
	case errors.As(err, &fenced), errors.As(err, &refused), errors.As(err, &corrupt),
		errors.Is(err, api.ErrUnknownStream), errors.Is(err, ErrClosed):
		return true
	case errors.As(err, &notOwner), errors.As(err, &bound), errors.As(err, &unavailable), errors.As(err, &order):
		return false
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// pace is the pause between tries: none before the first retry after progress, then growing to 2 s, and
// never shorter than what the server asks for.
type pace struct {
	growing *backoff.ExponentialBackOff
	tried   bool
}

func newPace() *pace {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = 50*time.Millisecond, 2, 2*time.Second
	return &pace{growing: b}
}

// progress starts over: something was achieved since the last try.
func (p *pace) progress() {
	p.growing.Reset()
	p.tried = false
}

// wait pauses before the try that follows err; false: ctx ended.
func (p *pace) wait(ctx context.Context, err error) bool {
	pause := retryAfter(err)
	if p.tried {
		pause = max(pause, p.growing.NextBackOff())
	}
	p.tried = true
	if pause <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func retryAfter(err error) time.Duration {
	var (
		bound       *api.BoundError
		unavailable *api.UnavailableError
	)
	switch {
	case errors.As(err, &bound):
		return bound.RetryAfter
	case errors.As(err, &unavailable):
		return unavailable.RetryAfter
	}
	return 0
}
