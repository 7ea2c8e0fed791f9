package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"nova.internal/e2e/process"
	"nova.internal/libs/api"
	"nova.internal/libs/client"
)

// startNova starts a fleet in one process for one test.
func startNova(t *testing.T, args ...string) *process.Nova {
	t.Helper()
	nova, err := process.StartNova(binaries["nova"], t.TempDir(), append([]string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if code, err := nova.Stop(45 * time.Second); err != nil || code != 0 {
			t.Errorf("nova ended with %d, %v\n%s", code, err, nova.Stderr())
		}
	})
	return nova
}

// TestAFollowingReaderSeesEachRecordOnceAcrossMoves follows a stream through the gateway while it is
// written and handed off again and again. The reads are served by the holder, and metered there.
func TestAFollowingReaderSeesEachRecordOnceAcrossMoves(t *testing.T) {
	nova := startNova(t)
	c := dial(t, nova.Gateway)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWorkload(2)
	if err := w.create(ctx, c); err != nil {
		t.Fatal(err)
	}
	load, stop := context.WithCancel(ctx)
	written := make(chan []error, 1)
	go func() { written <- w.write(load, c, 1, time.Millisecond) }()
	read := map[string][]string{}
	readers := map[string]*client.Reader{}
	for _, name := range w.names {
		r, err := c.Reader(ctx, name, client.ReaderOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		readers[name] = r
	}
	moves := 0
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		for _, name := range w.names {
			if time.Since(began) < 2*time.Second { // then the tail is read where it stays
				if _, err := c.Handoff(ctx, name, ""); err == nil {
					moves++
				}
			}
			for range 20 {
				record, err := readers[name].Next(ctx)
				if err != nil {
					t.Fatalf("follow %s: %v", name, err)
				}
				read[name] = append(read[name], string(record.Value))
			}
		}
	}
	stop()
	for _, err := range <-written {
		t.Errorf("a producer had to give up: %v", err)
	}
	for _, name := range w.names { // what is left, to the end
		for len(read[name]) < w.histories[name].Acknowledged() {
			record, err := readers[name].Next(ctx)
			if err != nil {
				t.Fatalf("follow %s: %v", name, err)
			}
			read[name] = append(read[name], string(record.Value))
		}
		if err := w.histories[name].Check(read[name]); err != nil {
			t.Errorf("stream %s as it was followed: %v", name, err)
		}
	}
	if moves < 20 {
		t.Errorf("only %d handoffs: the reader was hardly moved", moves)
	}
	t.Logf("%d records followed over %d handoffs", w.acknowledged(), moves)

	deadline := time.Now().Add(12 * time.Second) // stats are published every 5 s
	for metric(t, nova.HTTP, "nova_hot_read_bytes_per_second") == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no star has metered a hot read")
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// metric sums a metric over all parts of the fleet.
func metric(t *testing.T, address, name string) float64 {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}

func TestReadsBeginAndEndWhereTheyAreTold(t *testing.T) {
	nova := startNova(t)
	c := dial(t, nova.Gateway)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWorkload(1)
	if err := w.create(ctx, c); err != nil {
		t.Fatal(err)
	}
	load, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	for _, err := range w.write(load, c, 1, time.Millisecond) {
		t.Log(err)
	}
	all, err := readAll(ctx, c, w.names[0])
	if err != nil || len(all) < 20 {
		t.Fatalf("read %d records, %v", len(all), err)
	}
	tests := map[string]struct {
		opts  client.ReaderOptions
		first int
		count int
	}{
		"from a sequence, limited": {client.ReaderOptions{From: 7, Limit: 5}, 7, 5},
		"the last record":          {client.ReaderOptions{Last: true}, len(all) - 1, 1},
		"from the end on: nothing": {client.ReaderOptions{From: uint64(len(all))}, 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := c.Reader(ctx, w.names[0], tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for i := range tc.count {
				record, err := r.Next(ctx)
				if err != nil || record.Sequence != uint64(tc.first+i) || string(record.Value) != all[tc.first+i] {
					t.Fatalf("record %d = %d %q, %v", i, record.Sequence, record.Value, err)
				}
			}
			if record, err := r.Next(ctx); !errors.Is(err, io.EOF) {
				t.Errorf("after the last: %v, %v", record, err)
			}
		})
	}
}

// TestADeletedStreamEndsItsProducersAndReaders deletes a stream while it is written and followed: both
// hear that it is gone, at once and not at the leader's next absorb.
func TestADeletedStreamEndsItsProducersAndReaders(t *testing.T) {
	nova := startNova(t)
	c := dial(t, nova.Gateway)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWorkload(1)
	if err := w.create(ctx, c); err != nil {
		t.Fatal(err)
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	written := make(chan []error, 1)
	go func() { written <- w.write(load, c, 1, time.Millisecond) }()
	r, err := c.Reader(ctx, w.names[0], client.ReaderOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 50 {
		if _, err := r.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := c.Delete(ctx, w.names[0]); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = r.Next(ctx)
	}
	if !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("the reader heard %v, want no such stream", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the reader heard it only after %v", took)
	}
	if n := metric(t, nova.HTTP, "nova_leaderships_deposed_total"); n != 1 {
		t.Errorf("%v leaderships were deposed, want the deleted stream's", n)
	}
	stop()
	errs := <-written
	if len(errs) != 1 || !errors.Is(errs[0], api.ErrUnknownStream) {
		t.Errorf("the producer heard %v, want no such stream", errs)
	}
}
