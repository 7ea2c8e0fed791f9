package gateway

import "testing"

func TestAHolderIsForgottenWhenItFailsAndANewerOneIsKept(t *testing.T) {
	m, err := newMemory(2)
	if err != nil {
		t.Fatal(err)
	}
	want := func(stream string, holder target) {
		t.Helper()
		if got := m.holder(stream); got != holder {
			t.Errorf("%s is led by %v, want %v", stream, got, holder)
		}
	}
	m.leads("orders", star("a"))
	m.leads("orders", star("b"))
	m.failed("orders", star("a"))
	want("orders", star("b"))
	m.leads("orders", target{star: "c"}) // no address: no use
	want("orders", star("b"))
	m.failed("orders", star("b"))
	want("orders", target{})
	for _, stream := range []string{"x", "y", "z"} {
		m.leads(stream, star("a"))
	}
	want("x", target{})
	want("z", star("a"))
}
