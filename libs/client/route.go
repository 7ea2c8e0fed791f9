package client

import "nova.internal/libs/api"

// maxHops bounds how often one open follows NOT_OWNER from star to star.
const maxHops = 5

// target is where an open asks: a star with its address, or the gateway, whose star is "".
type target struct{ star, address string }

// route says whom one open asks next. It is pure: the caller asks, and tells the route what came of it.
//
// Through a gateway the address never changes and only the hint moves. In Direct mode a refusal that
// names another star is followed, but a star that failed once is not asked again within the same open:
// a stale hint would otherwise be answered by the next stale hint for ever.
type route struct {
	direct bool
	first  target
	at     target
	from   string // the star whose answer named at
	hint   string // through a gateway: the star that was named
	hops   uint32
	failed map[string]bool // by address
}

// newRoute begins an open at first. from is the star that sent the caller there, if any.
func newRoute(direct bool, first target, from, hint string) *route {
	return &route{direct: direct, first: first, at: first, from: from, hint: hint, failed: map[string]bool{}}
}

// redirected notes that at answered NOT_OWNER and reports whether to ask again now, where at points then.
// Otherwise the open is over and may be repeated later from the start.
func (r *route) redirected(e *api.NotOwnerError) bool {
	if r.hops >= maxHops || e.Star == "" && e.Address == "" {
		return false
	}
	if !r.direct {
		if e.Star == "" || e.Star == r.hint { // the gateway had this hint and came back with it
			return false
		}
		r.hops++
		r.hint, r.from = e.Star, e.From
		return true
	}
	if e.Address == "" || r.failed[e.Address] || e.Address == r.at.address {
		return false
	}
	r.hops++
	r.from = e.From
	if r.from == "" {
		r.from = r.at.star
	}
	r.at = target{star: e.Star, address: e.Address}
	return true
}

// unreachable notes that at did not answer as it should, and reports whether the star that was asked
// first is asked again now: it may know better than the star that it named.
func (r *route) unreachable() bool {
	r.failed[r.at.address] = true
	if r.hops == 0 || r.hops >= maxHops || r.failed[r.first.address] {
		return false
	}
	r.hops++
	r.at, r.from, r.hint = r.first, "", ""
	return true
}
