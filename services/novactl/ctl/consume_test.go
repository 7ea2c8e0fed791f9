package ctl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client/clienttest"
	"nova.internal/services/novactl/ctl"
)

// filled is a fleet with stream s, whose records are the lines of in.
func filled(t *testing.T, opts clienttest.Options, in string) *clienttest.Fleet {
	t.Helper()
	f := clienttest.New(t, opts)
	f.Create("s", novav1.Mode_MODE_ANY)
	run(t, f, in, "produce", "s").want(t, 0)
	return f
}

func TestConsumePrintsValues(t *testing.T) {
	f := filled(t, clienttest.Options{}, "a\n\nc\nd\n")
	tests := map[string]struct {
		args []string
		want string
	}{
		"all":                 {nil, "a\n\nc\nd\n"},
		"from first":          {[]string{"--from", "first"}, "a\n\nc\nd\n"},
		"from last":           {[]string{"--from", "last"}, "d\n"},
		"from a sequence":     {[]string{"--from", "2"}, "c\nd\n"},
		"from the end":        {[]string{"--from", "4"}, ""},
		"limit":               {[]string{"--limit", "3"}, "a\n\nc\n"},
		"a limit not reached": {[]string{"--limit", "9"}, "a\n\nc\nd\n"},
		"from with limit":     {[]string{"--from", "1", "--limit", "2"}, "\nc\n"},
		"a limit with follow": {[]string{"--limit", "4", "--follow"}, "a\n\nc\nd\n"},
		"last, limit, follow": {[]string{"--from", "last", "--limit", "1", "-f"}, "d\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if r := run(t, f, "", append([]string{"consume", "s"}, tc.args...)...).want(t, 0); r.out != tc.want {
				t.Errorf("printed %q, want %q", r.out, tc.want)
			}
		})
	}
}

func TestConsumeOfAnEmptyStreamPrintsNothing(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	for _, from := range []string{"first", "last", "0"} {
		if r := run(t, f, "", "consume", "s", "--from", from).want(t, 0); r.out != "" {
			t.Errorf("--from %s printed %q", from, r.out)
		}
	}
}

func TestConsumeAsJSONIsOneObjectALine(t *testing.T) {
	f := filled(t, clienttest.Options{}, "<a> & \"b\"\n\xff\x00\n")
	r := run(t, f, "", "consume", "s", "-o", "json").want(t, 0)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("printed %q", r.out)
	}
	first, second := parsed[map[string]any](t, lines[0]), parsed[map[string]any](t, lines[1])
	if first["sequence"] != 0.0 || first["value"] != `<a> & "b"` || first["key"] != nil || len(first) != 4 {
		t.Errorf("text is %v", first)
	}
	if !strings.Contains(lines[0], "<a> & ") {
		t.Errorf("text is escaped as if for HTML: %s", lines[0])
	}
	if at, _ := first["timestamp"].(string); !strings.HasSuffix(at, "Z") || !strings.Contains(at, "T") {
		t.Errorf("timestamp %v", first["timestamp"])
	}
	if value, ok := second["value"]; !ok || value != nil || second["value_base64"] != "/wA=" {
		t.Errorf("bytes are %v", second)
	}
}

func TestFollowShowsEachRecordAsItComesAndEndsWell(t *testing.T) {
	f := filled(t, clienttest.Options{}, "a\n")
	ctx, interrupt := context.WithCancel(t.Context())
	var out buffer
	done := make(chan result)
	go func() { done <- runUntil(ctx, f, ctl.Streams{Out: &out}, "consume", "s", "--follow") }()
	out.eventually(t, "a\n")
	run(t, f, "b\n", "produce", "s").want(t, 0)
	out.eventually(t, "a\nb\n")
	interrupt()
	r := <-done
	r.want(t, 0)
}

func TestConsumeGoesOnOverBrokenReads(t *testing.T) {
	n := 0
	opts := clienttest.Options{ReadFault: func() bool { n++; return n%7 == 0 }}
	f := clienttest.New(t, opts)
	f.Create("s", novav1.Mode_MODE_ANY)
	var want strings.Builder
	for i := range 30 {
		line := fmt.Sprintf("%d\n", i)
		run(t, f, line, "produce", "s").want(t, 0)
		want.WriteString(line)
	}
	if r := run(t, f, "", "consume", "s").want(t, 0); r.out != want.String() {
		t.Errorf("printed %q", r.out)
	}
}

func TestDamagedRecordsAreNeverShown(t *testing.T) {
	f := filled(t, clienttest.Options{}, "a\n")
	run(t, f, "b\n", "produce", "s").want(t, 0)
	f.Corrupt("s", func(all []*novav1.ReadBatch) []*novav1.ReadBatch {
		all[1].Records[len(all[1].Records)-2] ^= 1
		return all
	})
	r := run(t, f, "", "consume", "s").want(t, 1).says(t, "sequence 1", "damaged")
	if r.out != "a\n" {
		t.Errorf("printed %q", r.out)
	}
}

// closedOut is an output that nobody reads any more.
type closedOut struct{}

func (closedOut) Write([]byte) (int, error) { return 0, errors.New("nobody reads this") }

func TestAnOutputThatFailsIsAnError(t *testing.T) {
	f := filled(t, clienttest.Options{}, "a\n")
	for _, args := range [][]string{{"consume", "s"}, {"consume", "s", "-f"}, {"fleet"}, {"stream", "list", "-o", "json"}, {"stream", "describe", "s"}} {
		runWith(t, f, ctl.Streams{Out: closedOut{}}, args...).want(t, 1).says(t, "nobody reads this")
	}
}
