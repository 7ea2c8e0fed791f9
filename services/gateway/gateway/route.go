package gateway

import (
	"cmp"
	"errors"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// maxHops bounds how many refusals in a row that name another star are followed.
const maxHops = 5

// step is what an open does next.
type step int

const (
	ask     step = iota // open the stream at route.at
	resolve             // ask placement who leads the stream, or should, and tell the route
	pause               // wait a little, then resolve
	stop                // return the last refusal: another star would answer the same
)

// route is one open's way through the fleet. It is pure: the caller carries the steps out and tells the
// route what came of each.
//
//	hint ─▶ memory ─▶ placement ──ask──▶ Opened
//	                     ▲               NOT_OWNER: ask the star it names, at most maxHops in a row
//	                     └──── pause ◀── UNAVAILABLE, or too many hops
//
// A guess (the producer's hint, or the gateway's memory) that failed once is not made again.
type route struct {
	at target // to ask, or asked last

	guesses  []target
	guessed  bool   // at is a guess that nobody confirmed
	from     string // the star whose answer sent this open to at
	hops     uint32
	followed int // refusals followed since the last resolve
}

// newRoute begins an open. hint and remembered may be unknown. from and hops are what the producer says
// about the redirects that it has behind it; they go with the guesses alone, since placement knows better.
func newRoute(hint, remembered target, from string, hops uint32) *route {
	r := &route{from: from, hops: hops}
	for _, guess := range []target{hint, remembered} {
		if guess.known() && (len(r.guesses) == 0 || r.guesses[0].address != guess.address) {
			r.guesses = append(r.guesses, guess)
		}
	}
	return r
}

// first is the first step.
func (r *route) first() step { return r.guess() }

// guess moves on to the next guess, or to placement when there is none.
func (r *route) guess() step {
	if len(r.guesses) == 0 {
		return resolve
	}
	r.at, r.guesses, r.guessed = r.guesses[0], r.guesses[1:], true
	return ask
}

// resolved notes placement's answer.
func (r *route) resolved(t target) step {
	if !t.known() {
		return pause
	}
	r.at, r.from, r.guesses, r.guessed, r.followed = t, "", nil, false, 0
	return ask
}

// refused notes how the star at refused the open.
func (r *route) refused(err error) step {
	var other *api.NotOwnerError
	if errors.As(err, &other) {
		if other.Address == "" || other.Address == r.at.address || r.followed >= maxHops {
			return pause
		}
		r.followed++
		r.hops++
		r.from = cmp.Or(other.From, r.at.star)
		r.at, r.guessed = target{other.Star, other.Address}, false
		return ask
	}
	var away *api.UnavailableError
	if !errors.As(err, &away) {
		return stop
	}
	if r.guessed {
		r.from = ""
		return r.guess()
	}
	return pause
}

// open is the producer's Open as it goes to at.
func (r *route) open(o *novav1.Open) *novav1.Open {
	sent := proto.CloneOf(o)
	sent.RedirectedBy, sent.Hops, sent.Hint = r.from, r.hops, ""
	return sent
}
