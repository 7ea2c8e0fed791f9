package ctl

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func exitCode(err error) int {
	var u *usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

// errInterrupted is the end of a command that the user stopped before it was done.
var errInterrupted = errors.New("interrupted")

// advised is an error whose next step only the command knows.
type advised struct {
	error
	next string
}

func (e *advised) Unwrap() error { return e.error }

// explain is err in one line: what went wrong, and what to do about it.
func explain(err error) string {
	text := plain(err.Error())
	if next := next(err); next != "" {
		text += "; " + next
	}
	return text
}

// wrappings are what gRPC adds around a text.
var wrappings = regexp.MustCompile(`rpc error: code = \w+ desc = |connection error: desc = "transport: Error while dialing: ([^"]*)"`)

// plain is text on one line, without gRPC's wrappings and without what several layers said one after the
// other in the same words.
func plain(text string) string {
	parts := strings.Split(wrappings.ReplaceAllString(text, "$1"), ": ")
	return strings.Join(strings.Fields(strings.Join(slices.Compact(parts), ": ")), " ")
}

// next says what to do about err. It is empty where the text of err says so itself.
func next(err error) string {
	var (
		u           *usageError
		known       *advised
		tooLarge    *batch.TooLargeError
		corrupt     *client.CorruptError
		fenced      *api.FencedError
		unavailable *api.UnavailableError
		bound       *api.BoundError
		refused     *api.RefusedError
		field       *api.FieldError
	)
	switch {
	case errors.As(err, &u):
		return "see '" + u.command + " --help'"
	case errors.As(err, &known):
		return known.next
	case errors.Is(err, errInterrupted):
		return ""
	case errors.As(err, &tooLarge):
		return "split the record, or start the stars with a higher --max-record-bytes"
	case errors.As(err, &corrupt):
		return "nothing behind it was shown; try again, and look at the stars' logs if it stays"
	case errors.As(err, &fenced):
		return "another producer has taken the stream; run this again only to take it back"
	case strings.Contains(err.Error(), api.ErrUnknownStar.Error()):
		return "'novactl fleet' lists the stars"
	case errors.Is(err, api.ErrUnknownStream):
		return "'novactl stream list' lists the streams, 'novactl stream create' makes one"
	case errors.Is(err, api.ErrStreamExists):
		return "choose another name, or delete that stream first"
	case errors.As(err, &bound):
		return "" // it says when
	case errors.As(err, &unavailable):
		if unreachable(unavailable) {
			return "is a gateway running there? give its address with --gateway or NOVA_GATEWAY"
		}
		return "try again in a moment; 'novactl fleet' shows the stars"
	case errors.As(err, &field):
		return "change it and try again"
	case errors.As(err, &refused):
		return "" // it says what to do
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "DeadlineExceeded"):
		return "no answer in time; 'novactl fleet' shows whether the stars are well"
	}
	return "try again, and look at the gateway's log if it stays"
}

// unreachable says that nobody answered: a refusal of nova's own has a reason or a time.
func unreachable(e *api.UnavailableError) bool {
	return e.Reason == novav1.Unavailable_REASON_UNSPECIFIED && e.RetryAfter == 0 && strings.Contains(e.Why, "connection error")
}
