package api

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzStreamName: a name that passes is one token of keys and subjects, which stands for it alone and
// decodes to it; and no other token does.
func FuzzStreamName(f *testing.F) {
	for _, name := range []string{"orders", "größe/☃/orders", "a.b*c>d", "\x00", "\xff", strings.Repeat("x", MaxNameBytes), strings.Repeat("x", MaxNameBytes+1), ""} {
		f.Add(name)
	}
	f.Add("b3JkZXJz")
	f.Fuzz(func(t *testing.T, name string) {
		token := EncodeName(name)
		if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || strings.ContainsRune("/.*>~ \t\n", r) }) {
			t.Fatalf("%q is encoded as %q, which is no safe token", name, token)
		}
		if back, err := DecodeName(token); err != nil || back != name {
			t.Fatalf("%q is encoded as %q, which reads as %q, %v", name, token, back, err)
		}
		if err := CheckStreamName(name); err == nil && (name == "" || len(name) > MaxNameBytes || strings.ContainsAny(name, "\x00\n\x7f")) {
			t.Fatalf("%q passes", name)
		}
		if CheckStarName(name) == nil && (CheckStreamName(name) != nil || strings.ContainsAny(name, "/.*> ~")) {
			t.Fatalf("star name %q is no token", name)
		}
		// Any bytes as a token: what decodes is encoded as that very token.
		if back, err := DecodeName(name); err == nil && EncodeName(back) != name {
			t.Fatalf("token %q reads as %q, whose token is %q", name, back, EncodeName(back))
		}
	})
}
