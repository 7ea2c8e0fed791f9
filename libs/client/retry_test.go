package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nova.internal/libs/api"
)

func TestOnlyWhatRetriesCannotHealIsFatal(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"fenced":                {&api.FencedError{Epoch: 3}, true},
		"an unknown stream":     {api.ErrUnknownStream, true},
		"a field":               {&api.FieldError{Field: "records"}, true},
		"a damaged batch":       {&api.FieldError{Field: "crc32c"}, false},
		"refused":               {&api.RefusedError{Why: "no"}, true},
		"not the owner":         {&api.NotOwnerError{Star: "a"}, false},
		"at a bound":            {&api.BoundError{Name: "b"}, false},
		"unavailable":           {&api.UnavailableError{Why: "limbo"}, false},
		"out of order":          {&api.OutOfOrderError{Expected: 3}, false},
		"internal":              {status.Error(codes.Internal, "metastore away"), false},
		"a cancelled relay":     {status.Error(codes.Canceled, ""), false},
		"another kind of abort": {status.Error(codes.Aborted, ""), true},
		"not implemented":       {status.Error(codes.Unimplemented, ""), true},
		"no status at all":      {errors.New("connection reset"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			over := fmt.Errorf("at star: %w", api.FromError(api.Status(tc.err).Err()))
			if name == "no status at all" {
				over = tc.err
			}
			if got := fatal(over); got != tc.want {
				t.Errorf("fatal(%v) = %v", over, got)
			}
		})
	}
}

func TestPaceHonoursTheServersPause(t *testing.T) {
	p := newPace()
	began := time.Now()
	if !p.wait(t.Context(), &api.UnavailableError{}) || time.Since(began) > 20*time.Millisecond {
		t.Error("the first retry after progress came late")
	}
	began = time.Now()
	if !p.wait(t.Context(), &api.BoundError{RetryAfter: 150 * time.Millisecond}) || time.Since(began) < 150*time.Millisecond {
		t.Error("the retry came before the server asked for it")
	}
}
