package client_test

import (
	"testing"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

// BenchmarkAppend is the SDK's own cost for each record, over loopback to a leader in memory.
func BenchmarkAppend(b *testing.B) {
	f := clienttest.New(b, clienttest.Options{})
	f.Create("s", novav1.Mode_MODE_ANY)
	c, err := client.Dial(b.Context(), client.Config{Gateway: f.Gateway()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(b.Context(), "s", client.ProducerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	r := batch.Record{Value: make([]byte, 1000)}
	b.SetBytes(1000)
	b.ReportAllocs()
	for b.Loop() {
		p.Append(b.Context(), r)
	}
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
