package history_test

import (
	"testing"

	"nova.internal/e2e/history"
)

func TestTheCheckerFindsEachFault(t *testing.T) {
	tests := map[string]struct {
		read []string
		bad  bool
	}{
		"as promised":                         {[]string{"p/0", "q/0", "p/1", "p/2"}, false},
		"an unanswered record may be missing": {[]string{"p/0", "q/0", "p/1"}, false},
		"an acknowledged record is lost":      {[]string{"p/0", "q/0"}, true},
		"a record is there twice":             {[]string{"p/0", "q/0", "p/1", "q/0"}, true},
		"one producer's order is broken":      {[]string{"p/0", "q/0", "p/1", "p/3", "p/2"}, true},
		"a record at another sequence":        {[]string{"q/0", "p/0", "p/1"}, true},
		"a record that nobody sent":           {[]string{"p/0", "q/0", "p/1", "x"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := history.New()
			for _, p := range []string{"p", "q", "p", "p", "p"} {
				h.Sent(p)
			}
			for sequence, value := range map[uint64]string{0: "p/0", 1: "q/0", 2: "p/1"} {
				if err := h.Acked(value, sequence); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Check(tc.read); (err != nil) != tc.bad {
				t.Errorf("Check(%v) = %v", tc.read, err)
			}
		})
	}
	h := history.New()
	if err := h.Acked(h.Sent("p"), 0); err != nil {
		t.Fatal(err)
	}
	if err := h.Acked(h.Sent("p"), 0); err == nil {
		t.Error("one sequence for two records was not found")
	}
}
