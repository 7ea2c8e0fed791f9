package client

import "time"

// ProducerOptions shape one producer. The zero value is the idempotent producer with the defaults.
type ProducerOptions struct {
	// AtLeastOnce gives up idempotence: a batch whose answer was lost is sent again and may then be
	// stored twice, and the leader keeps no state for the producer.
	AtLeastOnce bool
	// MaxBatchBytes bounds what is grouped into one batch (1 MiB). A single Append above it makes a
	// batch of its own, up to what the server takes.
	MaxBatchBytes int
	// BufferBytes bounds what is appended and not answered (16 MiB); Append blocks there.
	BufferBytes int
	// WindowBytes is what the producer would like to have on the way at most (8 MiB); the server may
	// grant less.
	WindowBytes uint32
	// Linger is how long a batch waits for more records when it could be sent (1 ms).
	Linger time.Duration
	// DeliveryTimeout bounds the time from Append to the answer (2 min).
	DeliveryTimeout time.Duration
	// Silence is how long a handle may leave batches unanswered before the stream is opened again (30 s):
	// its peer may be gone without a word.
	Silence time.Duration
	// OpenTimeout bounds the first open (30 s).
	OpenTimeout time.Duration
}

func (o *ProducerOptions) defaults() {
	for _, d := range []struct {
		value *int
		byDef int
	}{{&o.MaxBatchBytes, 1 << 20}, {&o.BufferBytes, 16 << 20}} {
		if *d.value <= 0 {
			*d.value = d.byDef
		}
	}
	for _, d := range []struct {
		value *time.Duration
		byDef time.Duration
	}{{&o.Linger, time.Millisecond}, {&o.DeliveryTimeout, 2 * time.Minute}, {&o.Silence, 30 * time.Second}, {&o.OpenTimeout, 30 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.byDef
		}
	}
	if o.WindowBytes == 0 {
		o.WindowBytes = 8 << 20
	}
}
