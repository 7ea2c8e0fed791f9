package gateway

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

func star(name string) target { return target{name, name + ":1"} }

func notOwner(from, to string) error {
	return &api.NotOwnerError{Star: to, Address: to + ":1", From: from}
}

var away = &api.UnavailableError{Why: "test"}

// asked is one step with whom it asks and what it says about the way.
type asked struct {
	Step step
	Star string
	From string
	Hops uint32
}

// play carries a route out: each move is an error (the answer of the star asked) or a target (placement's).
func play(r *route, moves ...any) (steps []asked) {
	note := func(s step) {
		a := asked{Step: s}
		if s == ask {
			o := r.open(&novav1.Open{})
			a.Star, a.From, a.Hops = r.at.star, o.GetRedirectedBy(), o.GetHops()
		}
		steps = append(steps, a)
	}
	note(r.first())
	for _, m := range moves {
		switch m := m.(type) {
		case target:
			note(r.resolved(m))
		case error:
			note(r.refused(m))
		}
	}
	return steps
}

func TestAnOpenAsksWhomTheLastAnswerPointsTo(t *testing.T) {
	none := target{}
	for name, tc := range map[string]struct {
		route *route
		moves []any
		want  []asked
	}{
		"without a guess placement is asked first": {
			newRoute(none, none, "", 0), []any{star("a")},
			[]asked{{Step: resolve}, {ask, "a", "", 0}},
		},
		"the hint comes before the memory, with the producer's own redirects": {
			newRoute(star("a"), star("b"), "z", 2), nil,
			[]asked{{ask, "a", "z", 2}},
		},
		"a guess that failed gives way to the next at once, then to placement": {
			newRoute(star("a"), star("b"), "z", 0), []any{away, away, star("a")},
			[]asked{{ask, "a", "z", 0}, {ask, "b", "", 0}, {Step: resolve}, {ask, "a", "", 0}},
		},
		"a hint that the memory repeats is asked once": {
			newRoute(star("a"), star("a"), "", 0), []any{away},
			[]asked{{ask, "a", "", 0}, {Step: resolve}},
		},
		"a redirect is followed and says who sent it": {
			newRoute(none, star("a"), "", 0), []any{notOwner("a", "b"), notOwner("b", "c")},
			[]asked{{ask, "a", "", 0}, {ask, "b", "a", 1}, {ask, "c", "b", 2}},
		},
		"a redirect without a sender comes from the star asked": {
			newRoute(none, star("a"), "", 0), []any{&api.NotOwnerError{Star: "b", Address: "b:1"}},
			[]asked{{ask, "a", "", 0}, {ask, "b", "a", 1}},
		},
		"a star that was followed to and is away is no guess: pause before placement": {
			newRoute(none, star("a"), "", 0), []any{notOwner("a", "b"), away, star("b")},
			[]asked{{ask, "a", "", 0}, {ask, "b", "a", 1}, {Step: pause}, {ask, "b", "", 1}},
		},
		"the sixth redirect in a row is not followed": {
			newRoute(none, star("a"), "", 0),
			[]any{notOwner("a", "b"), notOwner("b", "a"), notOwner("a", "b"), notOwner("b", "a"), notOwner("a", "b"), notOwner("b", "a"), star("c"), notOwner("c", "d")},
			[]asked{{ask, "a", "", 0}, {ask, "b", "a", 1}, {ask, "a", "b", 2}, {ask, "b", "a", 3}, {ask, "a", "b", 4}, {ask, "b", "a", 5}, {Step: pause}, {ask, "c", "", 5}, {ask, "d", "c", 6}},
		},
		"a star that names itself is not asked again at once": {
			newRoute(none, star("a"), "", 0), []any{notOwner("a", "a")},
			[]asked{{ask, "a", "", 0}, {Step: pause}},
		},
		"a redirect to a star without an address waits for placement": {
			newRoute(none, star("a"), "", 0), []any{&api.NotOwnerError{Star: "b"}},
			[]asked{{ask, "a", "", 0}, {Step: pause}},
		},
		"placement that names nobody is asked again after a pause": {
			newRoute(none, none, "", 0), []any{none},
			[]asked{{Step: resolve}, {Step: pause}},
		},
		"a bound is final":             {newRoute(none, star("a"), "", 0), []any{&api.BoundError{}}, []asked{{ask, "a", "", 0}, {Step: stop}}},
		"a newer producer is final":    {newRoute(none, star("a"), "", 0), []any{&api.FencedError{}}, []asked{{ask, "a", "", 0}, {Step: stop}}},
		"an unknown stream is final":   {newRoute(none, star("a"), "", 0), []any{api.ErrUnknownStream}, []asked{{ask, "a", "", 0}, {Step: stop}}},
		"what nobody foresaw is final": {newRoute(none, star("a"), "", 0), []any{errors.New("odd")}, []asked{{ask, "a", "", 0}, {Step: stop}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, play(tc.route, tc.moves...)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}
