package ctl

import (
	"bytes"
	"testing"
	"time"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/client"
)

func TestARecordAsJSON(t *testing.T) {
	tests := map[string]struct {
		record batch.Record
		want   string
	}{
		"bare":  {batch.Record{}, `{"sequence":7,"key":null,"value":"","timestamp":null}`},
		"text":  {batch.Record{Key: []byte{}, Value: []byte("ä"), Time: time.UnixMilli(1)}, `{"sequence":7,"key":"","value":"ä","timestamp":"1970-01-01T00:00:00.001Z"}`},
		"bytes": {batch.Record{Key: []byte{255}, Value: []byte{254, 0}}, `{"sequence":7,"key":null,"key_base64":"/w==","value":null,"value_base64":"/gA=","timestamp":null}`},
		"headers": {batch.Record{Headers: []batch.Header{{Name: "h", Value: []byte("v")}, {Name: "b", Value: []byte{255}}}},
			`{"sequence":7,"key":null,"value":"","timestamp":null,"headers":[{"name":"h","value":"v"},{"name":"b","value":null,"value_base64":"/w=="}]}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := recordLine(&out, client.Record{Sequence: 7, Record: tc.record}); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != tc.want+"\n" {
				t.Errorf("got  %swant %s", got, tc.want)
			}
		})
	}
}
