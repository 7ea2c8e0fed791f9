package client

import (
	"testing"

	"pgregory.net/rapid"
)

func testBatch(bytes int) *sealed {
	return &sealed{count: 1, records: make([]byte, bytes), place: &place{done: make(chan struct{})}}
}

func filled(batches, bytes int) *window {
	w := &window{}
	for range batches {
		w.add(testBatch(bytes))
	}
	return w
}

// drain sends all that may be sent and returns the numbers.
func drain(w *window) (numbers []uint64) {
	for b := w.next(); b != nil; b = w.next() {
		w.send(b)
		numbers = append(numbers, b.number)
	}
	return numbers
}

func TestWindowSendsWhatIsAllowed(t *testing.T) {
	ack := func(w *window, numbers ...uint64) {
		for _, n := range numbers {
			if err := w.ack(n, n, 1); err != nil {
				panic(err)
			}
			for w.resolved() != nil {
			}
		}
	}
	tests := map[string]struct {
		batches int
		act     func(w *window)
		want    []uint64
	}{
		"nothing before a handle is open":               {3, func(w *window) {}, nil},
		"at most five unanswered":                       {8, func(w *window) { w.open(1000) }, []uint64{1, 2, 3, 4, 5}},
		"at most the granted bytes":                     {8, func(w *window) { w.open(25) }, []uint64{1, 2}},
		"a single batch above the granted bytes":        {8, func(w *window) { w.open(5) }, []uint64{1}},
		"an answer makes room for one":                  {8, func(w *window) { w.open(1000); drain(w); ack(w, 1) }, []uint64{6}},
		"an answer behind an unanswered one makes none": {8, func(w *window) { w.open(1000); drain(w); ack(w, 2, 3, 4, 5) }, nil},
		"a new handle resends all unanswered from the first": {8, func(w *window) {
			w.open(1000)
			drain(w)
			ack(w, 1, 3)
			w.broke()
			w.open(1000)
		}, []uint64{2, 4, 5, 6}},
		"nothing between a broken handle and the next": {8, func(w *window) { w.open(1000); drain(w); w.broke() }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := filled(tc.batches, 10)
			tc.act(w)
			got := drain(w)
			if len(got) != len(tc.want) {
				t.Fatalf("sent %v, want %v", got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Fatalf("sent %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestWindowRefusesAnswersToWhatWasNotAsked(t *testing.T) {
	w := filled(6, 10)
	w.open(1000)
	drain(w)
	for name, tc := range map[string]struct {
		number uint64
		count  uint32
	}{
		"a number that was never given": {7, 1},
		"number zero":                   {0, 1},
		"a batch that was not sent":     {6, 1},
		"another count":                 {1, 2},
	} {
		if err := w.ack(tc.number, 0, tc.count); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for range 2 {
		if err := w.ack(1, 0, 1); err != nil {
			t.Errorf("a repeated answer: %v", err)
		}
	}
}

func TestWindowKnowsWhatMayBeStored(t *testing.T) {
	maybe := func(w *window) (out []bool) {
		for _, m := range w.unresolved {
			out = append(out, m)
		}
		return out
	}
	w := filled(2, 10)
	w.open(10)
	drain(w)
	w.moved()
	if got := maybe(w); got[0] || got[1] {
		t.Errorf("after Moved: %v, want neither: the leader accepted nothing without an answer", got)
	}
	w.open(10)
	drain(w)
	if got := maybe(w); !got[0] || got[1] {
		t.Errorf("while the first is sent: %v", got)
	}
	w.broke()
	w.open(10)
	w.moved()
	if got := maybe(w); !got[0] || got[1] {
		t.Errorf("once a handle broke, a later Moved says nothing about it: %v", got)
	}
}

func TestAnAnswerThatOvertookAnotherWaitsForIt(t *testing.T) {
	w := filled(2, 10)
	w.open(1000)
	drain(w)
	if err := w.ack(2, 7, 1); err != nil || w.resolved() != nil {
		t.Errorf("batch 2 was resolved before batch 1, %v", err)
	}
	w.broke()
	for b, maybe := range w.unresolved {
		if !maybe {
			t.Errorf("batch %d is said not to be stored", b.number)
		}
	}
	w.open(1000)
	if got := drain(w); len(got) != 1 || got[0] != 1 {
		t.Errorf("sent %v again, want 1 alone", got)
	}
	if err := w.ack(1, 6, 1); err != nil {
		t.Fatal(err)
	}
	for want := range uint64(2) {
		if b := w.resolved(); b == nil || b.base != 6+want {
			t.Errorf("resolved %+v, want base %d", b, 6+want)
		}
	}
}

// A model leader that takes batches only in order, remembers five and loses any suffix of its answers
// stores every batch exactly once, whatever breaks when.
func TestWindowDeliversEachBatchOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &window{}
		var stored []uint64 // the leader's log
		var wire []uint64   // sent on this handle, not yet taken
		var acks []uint64   // on their way back
		resolved := uint64(0)
		open := false
		receive := func() {
			n := wire[0]
			wire = wire[1:]
			last := uint64(len(stored))
			switch {
			case n == last+1:
				stored = append(stored, n)
			case n <= last && n+depth > last: // remembered
			default:
				t.Fatalf("batch %d arrived at a leader that has %d and remembers five", n, last)
			}
			acks = append(acks, n)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) { w.add(testBatch(rapid.IntRange(1, 100).Draw(t, "bytes"))) },
			"open": func(t *rapid.T) {
				if open {
					t.Skip("open")
				}
				w.open(rapid.IntRange(1, 300).Draw(t, "window"))
				open = true
			},
			"send": func(t *rapid.T) {
				b := w.next()
				if b == nil {
					t.Skip("nothing to send")
				}
				w.send(b)
				wire = append(wire, b.number)
			},
			"receive": func(t *rapid.T) {
				if len(wire) == 0 {
					t.Skip("nothing on the wire")
				}
				receive()
			},
			"ack": func(t *rapid.T) {
				if len(acks) == 0 {
					t.Skip("no answers")
				}
				i := rapid.IntRange(0, len(acks)-1).Draw(t, "which")
				n := acks[i]
				acks = append(acks[:i:i], acks[i+1:]...)
				if err := w.ack(n, 10*n, 1); err != nil {
					t.Fatal(err)
				}
				for b := w.resolved(); b != nil; b = w.resolved() {
					if resolved++; b.number != resolved || b.base != 10*resolved {
						t.Fatalf("batch %d resolved at %d after %d batches", b.number, b.base, resolved-1)
					}
				}
			},
			"break": func(t *rapid.T) {
				for n := rapid.IntRange(0, len(wire)).Draw(t, "arrived"); n > 0; n-- {
					receive()
				}
				wire, acks = nil, nil
				w.broke()
				open = false
			},
			"": func(t *rapid.T) {
				if resolved > uint64(len(stored)) {
					t.Fatalf("%d batches resolved and %d are stored", resolved, len(stored))
				}
			},
		})
	})
}
