package ctl

import (
	"encoding/base64"
	"io"
	"unicode/utf8"

	"nova.internal/libs/client"
)

// shownRecord is a record as JSON. A record without a key has a null key.
type shownRecord struct {
	Sequence      uint64        `json:"sequence"`
	Key           *string       `json:"key"`
	KeyEncoding   string        `json:"key_encoding,omitempty"`
	Value         string        `json:"value"`
	ValueEncoding string        `json:"value_encoding,omitempty"`
	Timestamp     *string       `json:"timestamp"` // RFC 3339 with milliseconds, by the producer's clock
	Headers       []shownHeader `json:"headers,omitempty"`
}

type shownHeader struct {
	Name          string `json:"name"`
	Value         string `json:"value"`
	ValueEncoding string `json:"value_encoding,omitempty"`
}

func shown(r client.Record) shownRecord {
	s := shownRecord{Sequence: r.Sequence}
	if r.Key != nil {
		var key string
		key, s.KeyEncoding = text(r.Key)
		s.Key = &key
	}
	s.Value, s.ValueEncoding = text(r.Value)
	if !r.Time.IsZero() {
		at := stamp(r.Time)
		s.Timestamp = &at
	}
	for _, h := range r.Headers {
		value, encoding := text(h.Value)
		s.Headers = append(s.Headers, shownHeader{h.Name, value, encoding})
	}
	return s
}

// text is b as a JSON string can carry it, and how it is encoded when not as it is.
func text(b []byte) (value, encoding string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}

func recordLine(out io.Writer, r client.Record) error { return jsonLine(out, shown(r)) }

func valueLine(out io.Writer, r client.Record) error {
	if _, err := out.Write(r.Value); err != nil {
		return err
	}
	_, err := out.Write([]byte{'\n'})
	return err
}
