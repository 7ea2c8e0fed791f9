package ctl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nova.internal/libs/client/clienttest"
	"nova.internal/services/novactl/ctl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what one command left.
type result struct {
	code     int
	out, err string
}

// run runs one command against f, nil for none, with stdin as its input.
func run(t *testing.T, f *clienttest.Fleet, stdin string, args ...string) result {
	t.Helper()
	return runWith(t, f, ctl.Streams{In: strings.NewReader(stdin)}, args...)
}

func runWith(t *testing.T, f *clienttest.Fleet, s ctl.Streams, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return runUntil(ctx, f, s, args...)
}

func runUntil(ctx context.Context, f *clienttest.Fleet, s ctl.Streams, args ...string) result {
	var out, errs buffer
	if s.Out == nil {
		s.Out = &out
	}
	if s.Err == nil {
		s.Err = &errs
	}
	if f != nil {
		args = append(args, "--gateway", f.Gateway())
	}
	code := ctl.Run(ctx, args, s)
	return result{code, out.String(), errs.String()}
}

// want checks the exit code, and that stderr is one line exactly when it is not 0.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d; stdout %q, stderr %q", r.code, code, r.out, r.err)
	}
	lines := strings.Count(r.err, "\n")
	switch {
	case code == 0 && r.err != "":
		t.Errorf("stderr of a success: %q", r.err)
	case code != 0 && (lines != 1 || !strings.HasPrefix(r.err, "novactl: ")):
		t.Errorf("stderr of a failure is not one line of novactl's: %q", r.err)
	}
	return r
}

// says checks that stderr has each of the words.
func (r result) says(t *testing.T, words ...string) result {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(r.err, w) {
			t.Errorf("stderr %q does not say %q", r.err, w)
		}
	}
	return r
}

func parsed[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// buffer is safe for a command that writes while a test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// eventually waits until the buffer contains text.
func (b *buffer) eventually(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(b.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q never came; there is %q", text, b.String())
		}
	}
}

func TestUsageErrorsExitWith2AndAskNothing(t *testing.T) {
	tests := map[string]struct {
		args []string
		says []string
	}{
		"unknown command":          {[]string{"strem"}, []string{`no command "strem"`, "did you mean stream", "novactl --help"}},
		"unknown stream command":   {[]string{"stream", "make"}, []string{`no command "make"`, "novactl stream --help"}},
		"unknown flag":             {[]string{"fleet", "--bogus"}, []string{"--bogus", "novactl fleet --help"}},
		"no name":                  {[]string{"stream", "describe"}, []string{"which stream"}},
		"two names":                {[]string{"stream", "delete", "a", "b"}, []string{"one stream at a time"}},
		"bad name":                 {[]string{"stream", "create", "a\x01b"}, []string{"control characters"}},
		"empty name":               {[]string{"consume", ""}, []string{"at least one character"}},
		"long name":                {[]string{"produce", strings.Repeat("x", 256)}, []string{"255"}},
		"mode":                     {[]string{"stream", "create", "a", "--mode", "free"}, []string{"any or fenced"}},
		"class":                    {[]string{"stream", "create", "a", "--class", "fast"}, []string{"standard or express"}},
		"output":                   {[]string{"fleet", "-o", "xml"}, []string{"table or json"}},
		"from":                     {[]string{"consume", "a", "--from", "-1"}, []string{"--from", "first or last"}},
		"limit 0":                  {[]string{"consume", "a", "--limit", "0"}, []string{"--limit"}},
		"limit":                    {[]string{"consume", "a", "--limit", "few"}, []string{"--limit"}},
		"rate":                     {[]string{"produce", "a", "--rate", "-3"}, []string{"--rate"}},
		"rate 0":                   {[]string{"produce", "a", "--rate", "0"}, []string{"--rate"}},
		"key separator":            {[]string{"produce", "a", "--key-separator", ""}, []string{"--key-separator"}},
		"file":                     {[]string{"produce", "a", "--file", "no/such/file"}, []string{"no/such/file", "no such file"}},
		"since":                    {[]string{"events", "--since", "yesterday"}, []string{"--since", "10m"}},
		"argument":                 {[]string{"events", "a"}, []string{"unexpected argument"}},
		"star":                     {[]string{"handoff", "a", "--to", "a b"}, []string{"star's name"}},
		"empty star":               {[]string{"handoff", "a", "--to", ""}, []string{"star's name"}},
		"gateway without a port":   {[]string{"fleet", "--gateway", "nowhere"}, []string{"host:port", "--gateway"}},
		"unknown command and flag": {[]string{"nothing", "--bogus"}, []string{"--help"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// A fleet would be reached by nobody: the address is one that refuses.
			r := runWith(t, nil, ctl.Streams{In: strings.NewReader("")}, tc.args...)
			r.want(t, 2).says(t, tc.says...)
			if r.out != "" {
				t.Errorf("stdout: %q", r.out)
			}
		})
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"stream"}, {"help", "produce"}, {"consume", "--help"}, {"completion", "bash"}} {
		r := runWith(t, nil, ctl.Streams{Env: func(name string) (string, bool) { return "nonsense", name == "NOVA_GATEWAY" }}, args...).want(t, 0)
		if !strings.Contains(r.out, "novactl") {
			t.Errorf("%v printed %q", args, r.out)
		}
	}
}

func TestTheGatewayComesFromFlagEnvironmentOrDefault(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	env := func(name string) (string, bool) { return f.Gateway(), name == "NOVA_GATEWAY" }
	runWith(t, nil, ctl.Streams{Env: env}, "fleet").want(t, 0)
	runWith(t, nil, ctl.Streams{Env: env}, "fleet", "--gateway", "127.0.0.1:1").want(t, 1).says(t, "127.0.0.1:1")
	if r := runWith(t, nil, ctl.Streams{}, "fleet", "--help"); !strings.Contains(r.out, "127.0.0.1:7070") {
		t.Errorf("help does not show the default: %q", r.out)
	}
}

func TestAnUnreachableGatewayIsOneLineThatSaysSo(t *testing.T) {
	for _, args := range [][]string{
		{"stream", "list"}, {"stream", "create", "s"}, {"stream", "describe", "s"}, {"stream", "delete", "s"},
		{"fleet"}, {"events"}, {"handoff", "s"}, {"produce", "s"}, {"consume", "s"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			r := run(t, nil, "x\n", append(args, "--gateway", "127.0.0.1:1")...)
			r.want(t, 1).says(t, "127.0.0.1:1", "connection refused", "--gateway")
			if r.out != "" || strings.Contains(r.err, "rpc error") || strings.Contains(r.err, "desc =") {
				t.Errorf("stdout %q, stderr %q", r.out, r.err)
			}
		})
	}
}

func TestAnUnknownStreamIsOneLineThatSaysSo(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	for _, args := range [][]string{{"stream", "describe", "s"}, {"stream", "delete", "s"}, {"handoff", "s"}, {"produce", "s"}, {"consume", "s"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			r := run(t, f, "x\n", args...).want(t, 1).says(t, "no such stream", `"s"`, "novactl stream list")
			if strings.Count(r.err, "no such stream") != 1 || r.out != "" {
				t.Errorf("stdout %q, stderr %q", r.out, r.err)
			}
		})
	}
}

// eof is an input that nothing comes from until it is closed.
func eof(t *testing.T) (io.Reader, *io.PipeWriter) {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	return r, w
}
