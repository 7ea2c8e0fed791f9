package ctl

import (
	"io"
	"unicode/utf8"

	"nova.internal/libs/client"
)

// shownRecord is a record as JSON. A key or value that is not UTF-8 stands in the field with _base64, and
// its plain field is null; a record without a key has neither.
type shownRecord struct {
	Sequence    uint64        `json:"sequence"`
	Key         *string       `json:"key"`
	KeyBase64   []byte        `json:"key_base64,omitempty"`
	Value       *string       `json:"value"`
	ValueBase64 []byte        `json:"value_base64,omitempty"`
	Timestamp   *string       `json:"timestamp"` // RFC 3339 with milliseconds, by the producer's clock
	Headers     []shownHeader `json:"headers,omitempty"`
}

type shownHeader struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

func shown(r client.Record) shownRecord {
	s := shownRecord{Sequence: r.Sequence}
	if r.Key != nil {
		s.Key, s.KeyBase64 = text(r.Key)
	}
	s.Value, s.ValueBase64 = text(r.Value)
	if !r.Time.IsZero() {
		at := stamp(r.Time)
		s.Timestamp = &at
	}
	for _, h := range r.Headers {
		value, raw := text(h.Value)
		s.Headers = append(s.Headers, shownHeader{h.Name, value, raw})
	}
	return s
}

// text is b as a JSON string can carry it, else b itself, which encoding/json turns into base64.
func text(b []byte) (*string, []byte) {
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

func recordLine(out io.Writer, r client.Record) error { return jsonLine(out, shown(r)) }

func valueLine(out io.Writer, r client.Record) error {
	if _, err := out.Write(r.Value); err != nil {
		return err
	}
	_, err := out.Write([]byte{'\n'})
	return err
}
