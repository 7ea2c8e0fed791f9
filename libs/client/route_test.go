package client

import (
	"testing"

	"nova.internal/libs/api"
)

func no(star string) *api.NotOwnerError {
	return &api.NotOwnerError{Star: star, Address: star + ":1", From: "from-" + star}
}

func TestRouteFollowsNotOwnerDirectly(t *testing.T) {
	r := newRoute(true, target{address: "seed:1"}, "", "")
	if !r.redirected(no("a")) {
		t.Fatal("the first redirect was not followed")
	}
	if r.at.address != "a:1" || r.from != "from-a" || r.hops != 1 {
		t.Errorf("route is %+v", r)
	}
}

func TestRouteEndsAfterFiveHops(t *testing.T) {
	for _, direct := range []bool{true, false} {
		r := newRoute(direct, target{address: "seed:1"}, "", "")
		hops := 0
		for i := 0; r.redirected(no(string(rune('a' + i%3)))); i++ {
			if hops++; hops > 10 {
				t.Fatalf("direct=%v: redirects are followed for ever", direct)
			}
		}
		if hops != maxHops {
			t.Errorf("direct=%v: followed %d hops, want %d", direct, hops, maxHops)
		}
	}
}

func TestRouteAsksAFailedHintOnlyOnce(t *testing.T) {
	r := newRoute(true, target{address: "seed:1"}, "", "")
	r.redirected(no("a"))
	if !r.unreachable() || r.at.address != "seed:1" || r.from != "" {
		t.Fatalf("after a failed hint the first star is asked again: %+v", r)
	}
	if r.redirected(no("a")) {
		t.Error("a hint that failed was asked again")
	}
	if !r.redirected(no("b")) {
		t.Error("another hint was not asked")
	}
}

func TestRouteEndsWhereTheFirstStarFails(t *testing.T) {
	r := newRoute(true, target{address: "seed:1"}, "", "")
	if r.unreachable() {
		t.Error("the first star was asked again at once")
	}
}

func TestRouteThroughAGatewayMovesOnlyTheHint(t *testing.T) {
	r := newRoute(false, target{address: "gateway:1"}, "", "")
	if !r.redirected(no("a")) || r.at.address != "gateway:1" || r.hint != "a" {
		t.Fatalf("route is %+v", r)
	}
	if r.redirected(no("a")) {
		t.Error("the gateway was asked again with the hint that it answered with")
	}
}
