package coord

import (
	"context"
	"errors"
	"testing"
	"time"

	"nova.internal/libs/api/novav1"
)

// Oxia's client hands a read's answer over without a buffer: where nobody takes it, the shard's reads
// stand still for ever.
func TestACallerThatGaveUpDoesNotStopLaterReads(t *testing.T) {
	f := newFleet(t)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, _ = f.Rows().Get(ctx, HeadKey("s"), &novav1.HeadRow{})
	}
	_, err := f.Rows().Get(within(t, time.Second), HeadKey("s"), &novav1.HeadRow{})
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("a read after reads that were given up: %v", err)
	}
}
