package runtime

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheLogIsJSONWhereNobodyLooks(t *testing.T) {
	tests := map[string]struct {
		logging
		want string
	}{
		"a pipe, auto": {logging{"info", "auto"}, `"msg":"hello","n":1}`},
		"json":         {logging{"info", "json"}, `"msg":"hello","n":1}`},
		"text":         {logging{"info", "text"}, `msg=hello n=1`},
		"too low":      {logging{"warn", "text"}, ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log, err := tc.logger(&out)
			if err != nil {
				t.Fatal(err)
			}
			log.Info("hello", "n", 1)
			if got := out.String(); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("logged %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLibrariesAreHeardFromErrorsOnAndWhollyAtDebug(t *testing.T) {
	for level, want := range map[string]string{"info": "level=ERROR msg=three a=1\n", "error": "level=ERROR msg=three a=1\n", "debug": "level=INFO msg=one a=1\nlevel=WARN msg=two a=1\nlevel=ERROR msg=three a=1\n"} {
		t.Run(level, func(t *testing.T) {
			var out bytes.Buffer
			log, err := (&logging{level, "text"}).logger(&out)
			if err != nil {
				t.Fatal(err)
			}
			theirs := libraries(log).With("a", 1)
			theirs.Info("one")
			theirs.Warn("two")
			theirs.Error("three")
			var got strings.Builder
			for line := range strings.Lines(out.String()) {
				_, rest, _ := strings.Cut(line, " ") // the time
				got.WriteString(rest)
			}
			if got.String() != want {
				t.Errorf("heard %q, want %q", got.String(), want)
			}
		})
	}
}
