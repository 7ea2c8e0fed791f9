package api_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// TestEachRefusalCrossesTheWireAsItself holds Status and FromError to one another: what a service
// returned, wrapped as it is on the way, is what its client finds, with the code that the table names.
func TestEachRefusalCrossesTheWireAsItself(t *testing.T) {
	tests := map[string]struct {
		err  error
		code codes.Code
	}{
		"not the owner":      {&api.NotOwnerError{Star: "b", Address: "b:1", From: "a"}, codes.FailedPrecondition},
		"at a bound":         {&api.BoundError{Name: "max-producer-sessions", Limit: 4096, RetryAfter: time.Second}, codes.ResourceExhausted},
		"at capacity":        {&api.BoundError{Name: api.BoundFleetCapacity, RetryAfter: time.Second}, codes.ResourceExhausted},
		"fenced":             {&api.FencedError{Epoch: 7, Why: "a newer producer"}, codes.Aborted},
		"unavailable":        {&api.UnavailableError{Reason: novav1.Unavailable_REASON_LIMBO, Why: "in limbo", RetryAfter: time.Second}, codes.Unavailable},
		"a field":            {&api.FieldError{Field: "name", Why: "too long"}, codes.InvalidArgument},
		"out of order":       {&api.OutOfOrderError{Expected: 3}, codes.FailedPrecondition},
		"refused":            {&api.RefusedError{Why: "the order is for epoch 3"}, codes.FailedPrecondition},
		"an unknown stream":  {api.ErrUnknownStream, codes.NotFound},
		"an unknown star":    {api.ErrUnknownStar, codes.NotFound},
		"a name is taken":    {api.ErrStreamExists, codes.AlreadyExists},
		"a deadline":         {context.DeadlineExceeded, codes.DeadlineExceeded},
		"anything else":      {errors.New("a fault"), codes.Internal},
		"a status as it was": {status.Error(codes.Unauthenticated, "who"), codes.Unauthenticated},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := api.Status(tc.err)
			if s.Code() != tc.code {
				t.Errorf("code %v, want %v", s.Code(), tc.code)
			}
			got := api.FromError(s.Err())
			switch want := tc.err.(type) {
			case *api.NotOwnerError, *api.BoundError, *api.FencedError, *api.UnavailableError, *api.FieldError, *api.OutOfOrderError, *api.RefusedError:
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("over the wire (-want +got):\n%s", diff)
				}
			default:
				for _, kind := range []error{api.ErrUnknownStream, api.ErrUnknownStar, api.ErrStreamExists} {
					if errors.Is(got, kind) != errors.Is(tc.err, kind) {
						t.Errorf("over the wire %v, want %v", got, tc.err)
					}
				}
			}
			if again := api.FromError(api.Status(api.FromError(api.Status(tc.err).Err())).Err()); again.Error() != got.Error() {
				t.Errorf("relayed twice %q, once %q", again, got)
			}
		})
	}
	wrapped := api.FromError(api.Status(fmt.Errorf("open orders: %w", &api.FencedError{Epoch: 7})).Err())
	var fenced *api.FencedError
	if !errors.As(wrapped, &fenced) || fenced.Epoch != 7 {
		t.Errorf("a wrapped refusal = %v", wrapped)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "a/b c": true, "ü": true, "": false, "a\nb": false, "\xff": false, string(make([]byte, 256)): false} {
		if err := api.CheckStreamName(name); (err == nil) != ok {
			t.Errorf("CheckStreamName(%q) = %v", name, err)
		}
		if back, err := api.DecodeName(api.EncodeName(name)); err != nil || back != name {
			t.Errorf("%q encodes and decodes to %q, %v", name, back, err)
		}
	}
	for name, ok := range map[string]bool{"star-1": true, "A_b": true, "": false, "a/b": false, "a.b": false, string(make([]byte, 64)): false} {
		if err := api.CheckStarName(name); (err == nil) != ok {
			t.Errorf("CheckStarName(%q) = %v", name, err)
		}
	}
}
