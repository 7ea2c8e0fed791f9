package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"nova.internal/libs/api"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// However an input is cut into pieces, its lines are those between its line ends.
func TestSplitterDoesNotDependOnThePieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.SampledFrom([]byte("\n\na\r\x00"))).Draw(t, "input")
		var want [][]byte
		if len(in) > 0 {
			want = bytes.Split(bytes.TrimSuffix(in, []byte("\n")), []byte("\n"))
		}
		var s splitter
		var got [][]byte
		take := func(line []byte) error { got = append(got, bytes.Clone(line)); return nil }
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			piece := bytes.Clone(rest[:n])
			if err := s.feed(piece, take); err != nil {
				t.Fatal(err)
			}
			clear(piece) // as the source does with its buffers
			rest = rest[n:]
		}
		if err := s.finish(take); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || s.lines != len(want) {
			t.Fatalf("%q: %d lines, counted %d, want %d", in, len(got), s.lines, len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%q: line %d is %q, want %q", in, i, got[i], want[i])
			}
		}
	})
}

func TestSplitterHoldsNoLineAboveTheBound(t *testing.T) {
	var s splitter
	none := func([]byte) error { return nil }
	if err := s.feed([]byte("a\nb\n"), none); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	for range maxLineBytes >> 20 {
		if err := s.feed(piece, none); err != nil {
			t.Fatalf("a line at the bound: %v", err)
		}
	}
	var line *lineError
	var tooLarge *batch.TooLargeError
	if err := s.feed([]byte("x"), none); !errors.As(err, &line) || line.line != 3 || !errors.As(err, &tooLarge) {
		t.Errorf("a line above the bound: %v", err)
	}
}

func TestPacerKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begun := newPacer(10), time.Now()
		for range 31 {
			p.wait(t.Context(), nil)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("31 records at 10 a second took %v, want 3s", took)
		}
		time.Sleep(time.Hour) // the input has nothing
		begun = time.Now()
		for range 11 {
			p.wait(t.Context(), nil)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("11 records after a pause took %v, want 1s: a pause is not made up for", took)
		}
	})
}

func TestPacerEndsWithItsContextOrStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0.001)
		p.wait(t.Context(), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		p.wait(ctx, nil)
		stop := make(chan struct{})
		close(stop)
		p.wait(t.Context(), stop)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestSinceIsATimeOrADurationBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"": {}, "10m": now.Add(-10 * time.Minute), "0s": now, "2026-01-01T00:00:00+01:00": time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceWhen(in, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"-10m", "now", "2026-01-01"} {
		if _, err := sinceWhen(in, now); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestErrorsSayWhatToDoNext(t *testing.T) {
	// As a command sees them: through a status, wrapped with what was being asked.
	remote := func(err error) error {
		return fmt.Errorf("hand off stream s at gw:1: %w", api.FromError(api.Status(err).Err()))
	}
	tests := map[string]struct {
		err  error
		want string
	}{
		"unknown stream": {remote(fmt.Errorf("%w: %q", api.ErrUnknownStream, "s")),
			`hand off stream s at gw:1: no such stream: "s"; 'novactl stream list' lists the streams, 'novactl stream create' makes one`},
		"capacity": {remote(&api.BoundError{Name: api.BoundFleetCapacity}),
			"hand off stream s at gw:1: at capacity: no star of the fleet may take a new leadership now; retry later or add a star"},
		"limbo": {remote(&api.UnavailableError{Reason: novav1.Unavailable_REASON_LIMBO, Why: "a departure has not landed", RetryAfter: time.Second}),
			"hand off stream s at gw:1: unavailable for now: a departure has not landed; try again in a moment; 'novactl fleet' shows the stars"},
		"refused": {remote(&api.RefusedError{Why: "the stream is vacant"}), "hand off stream s at gw:1: the stream is vacant"},
		"fenced": {remote(&api.FencedError{Epoch: 3, Why: "a newer producer"}),
			"hand off stream s at gw:1: fenced at epoch 3: a newer producer; another producer has taken the stream; run this again only to take it back"},
		"late": {remote(context.DeadlineExceeded),
			"hand off stream s at gw:1: context deadline exceeded; no answer in time; 'novactl fleet' shows whether the stars are well"},
		"anything": {remote(errors.New("a\nb")), "hand off stream s at gw:1: a b; try again, and look at the gateway's log if it stays"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := explain(tc.err); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
