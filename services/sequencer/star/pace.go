package star

import (
	"context"
	"errors"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// sleep waits for d, or returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func unavailable(reason novav1.Unavailable_Reason, why string) error {
	return &api.UnavailableError{Reason: reason, Why: why, RetryAfter: 100 * time.Millisecond}
}

// retryable says whether a gate that met err may try again. What is not one of nova's own refusals is a
// fault of the metastore, the storage or a peer, and those pass.
func retryable(err error) bool {
	var (
		notOwner *api.NotOwnerError
		fenced   *api.FencedError
		field    *api.FieldError
		bound    *api.BoundError
		away     *api.UnavailableError
	)
	switch {
	case errors.Is(err, errSettled), errors.As(err, &notOwner), errors.As(err, &fenced), errors.As(err, &field), errors.As(err, &bound), errors.Is(err, api.ErrUnknownStream):
		return false
	case errors.As(err, &away):
		return away.Reason != novav1.Unavailable_REASON_OVERTAKEN && away.Reason != novav1.Unavailable_REASON_DEPARTING
	}
	return true
}

// refusal makes sure that what a client hears is one of nova's refusals.
func refusal(err error, doing string) error {
	if err == nil || !retryable(err) {
		return err
	}
	var away *api.UnavailableError
	if errors.As(err, &away) || errors.Is(err, context.Canceled) {
		return err
	}
	return unavailable(novav1.Unavailable_REASON_UNSPECIFIED, doing+": "+err.Error())
}
