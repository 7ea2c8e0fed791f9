package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"nova.internal/libs/api/novav1"
)

// The kinds of refusal. Services return them, wrapped with what was being done; the server interceptors
// of this package turn them into gRPC statuses by the one table in Status, and FromError turns a status
// back on the other side. Anything else becomes INTERNAL.
var (
	ErrUnknownStream = errors.New("no such stream")
	ErrStreamExists  = errors.New("a stream of this name exists with another mode or class")
	ErrUnknownStar   = errors.New("no such star")
)

// NotOwnerError says that another star leads the stream, or should.
type NotOwnerError struct {
	Star, Address string
	From          string // the star that says so
}

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("not the owner: open the stream at star %s (%s)", e.Star, e.Address)
}

// BoundError is the refusal of new work at an explicit bound. It is what nova calls shedding.
type BoundError struct {
	Name       string // of the bound: a flag, or "fleet-capacity"
	Limit      int64
	RetryAfter time.Duration
}

func (e *BoundError) Error() string {
	if e.Name == BoundFleetCapacity {
		return "at capacity: no star of the fleet may take a new leadership now; retry later or add a star"
	}
	return fmt.Sprintf("at the bound %s=%d; retry after %v", e.Name, e.Limit, e.RetryAfter)
}

// BoundFleetCapacity names the bound that is reached when no star is eligible.
const BoundFleetCapacity = "fleet-capacity"

// FencedError says that a newer producer or a newer epoch has superseded the caller.
type FencedError struct {
	Epoch uint64
	Why   string
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("fenced at epoch %d: %s", e.Epoch, e.Why)
}

// UnavailableError is a refusal that should not last.
type UnavailableError struct {
	Reason     novav1.Unavailable_Reason
	Why        string
	RetryAfter time.Duration
}

func (e *UnavailableError) Error() string { return unavailablePrefix + e.Why }

const unavailablePrefix = "unavailable for now: "

// bare takes the prefix off a text that may be relayed again, so that it is said once.
func bare(text string) string { return strings.ReplaceAll(text, unavailablePrefix, "") }

// FieldError names the part of a request that can never be accepted.
type FieldError struct{ Field, Why string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Why }

// OutOfOrderError says which batch number the leader expects next.
type OutOfOrderError struct{ Expected uint64 }

func (e *OutOfOrderError) Error() string {
	return fmt.Sprintf("batch out of order: number %d comes next; open again and resend from there", e.Expected)
}

// RefusedError is a request that the present state forbids, with the reason and what to do.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Status is the table between refusals and gRPC statuses.
func Status(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	with := func(code codes.Code, details ...protoadapt.MessageV1) *status.Status {
		s := status.New(code, err.Error())
		if detailed, derr := s.WithDetails(details...); derr == nil {
			return detailed
		}
		return s
	}
	retry := func(after time.Duration) protoadapt.MessageV1 {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
	}
	var (
		notOwner    *NotOwnerError
		bound       *BoundError
		fenced      *FencedError
		unavailable *UnavailableError
		field       *FieldError
		order       *OutOfOrderError
		refused     *RefusedError
	)
	switch {
	case errors.As(err, &notOwner):
		return with(codes.FailedPrecondition, &novav1.NotOwner{Star: notOwner.Star, Address: notOwner.Address, From: notOwner.From})
	case errors.As(err, &bound):
		return with(codes.ResourceExhausted, &novav1.Bound{Name: bound.Name, Limit: bound.Limit}, retry(bound.RetryAfter))
	case errors.As(err, &fenced):
		return with(codes.Aborted, &novav1.Fenced{Epoch: fenced.Epoch, Why: fenced.Why})
	case errors.As(err, &unavailable):
		return with(codes.Unavailable, &novav1.Unavailable{Reason: unavailable.Reason}, retry(unavailable.RetryAfter))
	case errors.As(err, &order):
		return with(codes.FailedPrecondition, &novav1.OutOfOrder{Expected: order.Expected})
	case errors.As(err, &field):
		return with(codes.InvalidArgument, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field.Field, Description: field.Why}}})
	case errors.As(err, &refused):
		return with(codes.FailedPrecondition)
	case errors.Is(err, ErrUnknownStream):
		return with(codes.NotFound, &errdetails.ResourceInfo{ResourceType: resourceStream})
	case errors.Is(err, ErrUnknownStar):
		return with(codes.NotFound, &errdetails.ResourceInfo{ResourceType: resourceStar})
	case errors.Is(err, ErrStreamExists):
		return with(codes.AlreadyExists)
	case errors.Is(err, context.Canceled):
		return with(codes.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return with(codes.DeadlineExceeded)
	}
	if s, ok := status.FromError(err); ok {
		return s
	}
	return with(codes.Internal)
}

// What a NOT_FOUND is about.
const (
	resourceStream = "stream"
	resourceStar   = "star"
)

// relayed is a refusal of a kind whose text came over the wire as it is.
type relayed struct {
	kind error
	text string
}

func (e *relayed) Error() string { return e.text }
func (e *relayed) Unwrap() error { return e.kind }

// FromError turns what a nova service answered back into the refusal it stands for. An error that is
// none of them is returned as it is.
func FromError(err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() == codes.OK {
		return err
	}
	var after time.Duration
	var unavailable *UnavailableError
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			after = d.GetRetryDelay().AsDuration()
		case *novav1.Unavailable:
			unavailable = &UnavailableError{Reason: d.GetReason(), Why: bare(s.Message())}
		case *errdetails.ResourceInfo:
			if d.GetResourceType() == resourceStar {
				return &relayed{ErrUnknownStar, s.Message()}
			}
		case *novav1.NotOwner:
			return &NotOwnerError{Star: d.GetStar(), Address: d.GetAddress(), From: d.GetFrom()}
		case *novav1.Fenced:
			return &FencedError{Epoch: d.GetEpoch(), Why: d.GetWhy()}
		case *novav1.OutOfOrder:
			return &OutOfOrderError{Expected: d.GetExpected()}
		case *errdetails.BadRequest:
			if v := d.GetFieldViolations(); len(v) > 0 {
				return &FieldError{Field: v[0].GetField(), Why: v[0].GetDescription()}
			}
		}
	}
	for _, d := range s.Details() {
		if b, ok := d.(*novav1.Bound); ok {
			return &BoundError{Name: b.GetName(), Limit: b.GetLimit(), RetryAfter: after}
		}
	}
	switch {
	case unavailable != nil:
		unavailable.RetryAfter = after
		return unavailable
	case s.Code() == codes.Unavailable:
		return &UnavailableError{Why: bare(s.Message()), RetryAfter: after}
	case s.Code() == codes.NotFound:
		return &relayed{ErrUnknownStream, s.Message()}
	case s.Code() == codes.AlreadyExists:
		return &relayed{ErrStreamExists, s.Message()}
	case s.Code() == codes.FailedPrecondition:
		return &RefusedError{Why: s.Message()}
	}
	return err
}
