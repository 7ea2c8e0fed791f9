package api

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes bounds a stream's name.
const MaxNameBytes = 255

// CheckStreamName returns a *FieldError unless name is 1 to 255 bytes of UTF-8 without control
// characters. A slash is an ordinary character.
func CheckStreamName(name string) error {
	switch {
	case name == "":
		return &FieldError{Field: "name", Why: "a stream's name has at least one character"}
	case len(name) > MaxNameBytes:
		return &FieldError{Field: "name", Why: fmt.Sprintf("a stream's name has at most %d bytes, this one has %d", MaxNameBytes, len(name))}
	case !utf8.ValidString(name):
		return &FieldError{Field: "name", Why: "a stream's name is valid UTF-8"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &FieldError{Field: "name", Why: "a stream's name has no control characters"}
	}
	return nil
}

// CheckStarName returns a *FieldError unless name is 1 to 63 letters, digits, '-' or '_'. A star's name
// stands in keys, object names and event subjects as it is.
func CheckStarName(name string) error {
	ok := name != "" && len(name) <= 63 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
	if !ok {
		return &FieldError{Field: "star", Why: fmt.Sprintf("a star's name is 1 to 63 letters, digits, '-' or '_'; %q is not", name)}
	}
	return nil
}

// EncodeName turns a stream's name into one token that is safe as an Oxia key element and as a NATS
// subject token: unpadded URL-safe base64, in which distinct names stay distinct.
func EncodeName(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name))
}

// DecodeName undoes EncodeName, and refuses what EncodeName makes of no name: base64 has several texts for
// some bytes, and one stream has one token.
func DecodeName(token string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", fmt.Errorf("decode stream name %q: %w", token, err)
	}
	if EncodeName(string(name)) != token {
		return "", fmt.Errorf("decode stream name %q: it is no name's token", token)
	}
	return string(name), nil
}
