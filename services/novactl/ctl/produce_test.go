package ctl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client/clienttest"
	"nova.internal/services/novactl/ctl"
)

func TestEachLineIsARecord(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []string
	}{
		"nothing":                              {"", nil},
		"one":                                  {"a\n", []string{"a"}},
		"empty lines":                          {"\n\na\n\n", []string{"", "", "a", ""}},
		"a last line without a line end":       {"a\nb", []string{"a", "b"}},
		"a carriage return belongs to a line":  {"a\r\nb", []string{"a\r", "b"}},
		"bytes that are no text":               {"\xff\x00\n\xfe", []string{"\xff\x00", "\xfe"}},
		"a line longer than a piece is a line": {strings.Repeat("x", 200_000) + "\ny\n", []string{strings.Repeat("x", 200_000), "y"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := clienttest.New(t, clienttest.Options{})
			f.Create("s", novav1.Mode_MODE_ANY)
			r := run(t, f, tc.in, "produce", "s").want(t, 0)
			if got := f.Values(t, "s"); !slices.Equal(got, tc.want) {
				t.Errorf("stored %.60q, want %.60q", got, tc.want)
			}
			want := map[int]string{0: "acknowledged 0 records\n", 1: "acknowledged 1 record, sequences 0 to 0\n"}[len(tc.want)]
			if want == "" {
				want = fmt.Sprintf("acknowledged %d records, sequences 0 to %d\n", len(tc.want), len(tc.want)-1)
			}
			if r.out != want {
				t.Errorf("printed %q, want %q", r.out, want)
			}
		})
	}
}

func TestProduceReadsAFile(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_FENCED)
	file := filepath.Join(t.TempDir(), "lines")
	var lines []string
	for i := range 20_000 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, f, "not this", "produce", "s", "--file", file, "-o", "json").want(t, 0)
	if r.out != `{"stream":"s","acknowledged":20000,"unknown":0,"first_sequence":0,"last_sequence":19999}`+"\n" {
		t.Errorf("printed %s", r.out)
	}
	if !slices.Equal(f.Values(t, "s"), lines) {
		t.Error("the stored records are not the lines")
	}
	r = run(t, f, "", "produce", "s", "--file", "-", "-o", "json").want(t, 0)
	if !strings.Contains(r.out, `"first_sequence":null`) {
		t.Errorf("a run without records printed %s", r.out)
	}
	run(t, f, "", "produce", "s", "--file", t.TempDir()).want(t, 1).says(t, "is a directory", "see to the input")
}

func TestTheKeyStandsBeforeTheSeparator(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	run(t, f, "k=v=w\n=v\nplain\n", "produce", "s", "--key-separator", "=").want(t, 0)
	r := run(t, f, "", "consume", "s", "-o", "json").want(t, 0)
	for i, want := range []string{`"sequence":0,"key":"k","value":"v=w"`, `"sequence":1,"key":"","value":"v"`, `"sequence":2,"key":null,"value":"plain"`} {
		if line := strings.Split(r.out, "\n")[i]; !strings.Contains(line, want) {
			t.Errorf("line %d is %s, want %s", i, line, want)
		}
	}
}

func TestATooLongLineIsRefusedWithItsNumber(t *testing.T) {
	for name, option := range map[string]clienttest.Options{
		"above the server's bound":    {MaxRecordBytes: 100},
		"above what any server takes": {MaxRecordBytes: 64 << 20, MaxBatchBytes: 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			f := clienttest.New(t, option)
			f.Create("s", novav1.Mode_MODE_ANY)
			long := strings.Repeat("x", 1<<10)
			if option.MaxRecordBytes > 1<<20 {
				long = strings.Repeat("x", 21<<20)
			}
			r := run(t, f, "one\ntwo\n"+long+"\nfour\n", "produce", "s").want(t, 1)
			r.says(t, "2 records acknowledged", "line 3", "bytes", "go on from line 3")
			if r.out != "acknowledged 2 records, sequences 0 to 1\n" {
				t.Errorf("printed %q", r.out)
			}
			if got := f.Values(t, "s"); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("stored %q: nothing behind the refused line may be", got)
			}
		})
	}
}

func TestProduceSurvivesMovesAndBrokenConnections(t *testing.T) {
	for seed := range uint64(5) {
		f := clienttest.New(t, clienttest.Options{Stars: 3, Fault: clienttest.Random(seed, map[clienttest.Fault]int{
			clienttest.Refuse: 30, clienttest.LoseAck: 30, clienttest.CutConn: 20, clienttest.Move: 30, clienttest.LateAck: 30,
		})})
		f.Create("s", novav1.Mode_MODE_ANY)
		var in strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&in, "%d\n", i)
		}
		run(t, f, in.String(), "produce", "s").want(t, 0)
		if got := strings.Join(f.Values(t, "s"), "\n") + "\n"; got != in.String() {
			t.Errorf("seed %d: the stored records are not the lines", seed)
		}
	}
}

// A newer fenced producer takes the stream while the first one waits for input.
func TestAFencedProduceSaysHowManyAreAcknowledged(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_FENCED)
	in, lines := eof(t)
	first := make(chan result)
	go func() {
		first <- runUntil(context.Background(), f, ctl.Streams{In: in}, "produce", "s")
	}()
	fmt.Fprint(lines, "a\nb\n")
	for len(f.Values(t, "s")) < 2 {
		time.Sleep(time.Millisecond)
	}
	run(t, f, "c\n", "produce", "s").want(t, 0)
	fmt.Fprint(lines, "late\n")
	r := <-first
	r.want(t, 1).says(t, "2 records acknowledged", "newer producer", "go on from line 3")
	if got := f.Values(t, "s"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("stored %q", got)
	}
}

func TestInterruptedProduceFlushesAndSaysWhereToGoOn(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	in, lines := eof(t)
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan result)
	go func() { done <- runUntil(ctx, f, ctl.Streams{In: in}, "produce", "s") }()
	fmt.Fprint(lines, "a\nb\nhal")
	for len(f.Values(t, "s")) < 2 {
		time.Sleep(time.Millisecond)
	}
	interrupt()
	r := <-done
	r.want(t, 1).says(t, "2 records acknowledged", "interrupted", "go on from line 3")
	if r.out != "acknowledged 2 records, sequences 0 to 1\n" {
		t.Errorf("printed %q", r.out)
	}
}

func TestAFailingInputIsReportedBehindWhatWasStored(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	in, lines := eof(t)
	go func() {
		fmt.Fprint(lines, "a\nhal")
		_ = lines.CloseWithError(os.ErrDeadlineExceeded)
	}()
	r := runWith(t, f, ctl.Streams{In: in}, "produce", "s")
	r.want(t, 1).says(t, "1 record acknowledged", "read the input", "go on from line 2")
	if got := f.Values(t, "s"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("stored %q: a line cut short is no record", got)
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	r := runWith(t, f, ctl.Streams{In: strings.NewReader("a\nb\n"), Terminal: true}, "produce", "s")
	if r.code != 0 || !strings.Contains(r.err, "produce to s") || !strings.HasSuffix(r.err, "\r") {
		t.Errorf("code %d, stderr %q", r.code, r.err)
	}
	run(t, f, "a\n", "produce", "s").want(t, 0) // want checks that stderr is empty
	runWith(t, f, ctl.Streams{In: strings.NewReader("a\n"), Terminal: true, Typed: true}, "produce", "s").want(t, 0)
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runWith(t, f, ctl.Streams{Terminal: true, Typed: true}, "produce", "s", "--file", file); !strings.Contains(r.err, "produce to s") {
		t.Errorf("of a file: stderr %q", r.err)
	}
}

func TestRateHoldsRecordsBack(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	begun := time.Now()
	run(t, f, "a\nb\nc\n", "produce", "s", "--rate", "20").want(t, 0)
	if took := time.Since(begun); took < 100*time.Millisecond {
		t.Errorf("three records at 20 a second took %v, want 100 ms or more", took)
	}
}
