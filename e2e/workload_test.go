package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"nova.internal/e2e/history"
	"nova.internal/e2e/process"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
)

// binaries are the fleet's programs, built once for all tests.
var binaries map[string]string

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	_, file, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", "nova-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	binaries, err = process.Build(ctx, filepath.Dir(filepath.Dir(file)), dir, "nova", "novactl", "sequencer", "placer", "gateway")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// workload is streams of both classes, their histories, and who writes them.
type workload struct {
	names     []string
	histories map[string]*history.Stream
	turns     int // of write: each one's producers have names of their own
}

func newWorkload(streams int) *workload {
	w := &workload{histories: map[string]*history.Stream{}}
	for i := range streams {
		name := fmt.Sprintf("load/%02d", i)
		w.names = append(w.names, name)
		w.histories[name] = history.New()
	}
	return w
}

func (w *workload) class(i int) novav1.Class {
	if i%2 == 1 {
		return novav1.Class_CLASS_EXPRESS
	}
	return novav1.Class_CLASS_STANDARD
}

func (w *workload) create(ctx context.Context, c *client.Client) error {
	for i, name := range w.names {
		if _, err := c.Create(ctx, name, novav1.Mode_MODE_ANY, w.class(i)); err != nil {
			return err
		}
	}
	return nil
}

// write runs idempotent producers on every stream until ctx ends, and notes each promise. Errors end a
// producer: a fleet that is killed owes nothing but what it has acknowledged.
func (w *workload) write(ctx context.Context, c *client.Client, perStream int, pause time.Duration) (errs []error) {
	w.turns++
	var all sync.WaitGroup
	var mu sync.Mutex
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	for _, name := range w.names {
		for i := range perStream {
			producer := fmt.Sprintf("p%d.%d", w.turns, i)
			all.Go(func() {
				if err := w.produce(ctx, c, name, producer, pause); err != nil {
					fail(fmt.Errorf("%s to %s: %w", producer, name, err))
				}
			})
		}
	}
	all.Wait()
	return errs
}

func (w *workload) produce(ctx context.Context, c *client.Client, stream, producer string, pause time.Duration) error {
	h := w.histories[stream]
	p, err := c.Producer(ctx, stream, client.ProducerOptions{})
	if err != nil {
		return err
	}
	var acks sync.WaitGroup
	var first error
	var mu sync.Mutex
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
	}
	for ctx.Err() == nil {
		value := h.Sent(producer)
		pending := p.Append(ctx, batch.Record{Value: []byte(value)})
		acks.Go(func() {
			sequence, err := pending.Wait(context.WithoutCancel(ctx))
			if err == nil {
				err = h.Acked(value, sequence)
			}
			if err != nil {
				note(err)
			}
		})
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := p.Close(end); err != nil {
		note(err)
	}
	acks.Wait()
	return first
}

// check reads every stream from its beginning and holds it against its history.
func (w *workload) check(ctx context.Context, c *client.Client) error {
	for _, name := range w.names {
		read, err := readAll(ctx, c, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := w.histories[name].Check(read); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return nil
}

func (w *workload) acknowledged() int {
	n := 0
	for _, h := range w.histories {
		n += h.Acknowledged()
	}
	return n
}

func readAll(ctx context.Context, c *client.Client, name string) ([]string, error) {
	r, err := c.Reader(ctx, name, client.ReaderOptions{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var values []string
	for {
		record, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		if record.Sequence != uint64(len(values)) {
			return nil, fmt.Errorf("sequence %d comes after %d", record.Sequence, len(values)-1)
		}
		values = append(values, string(record.Value))
	}
}

func dial(t *testing.T, gateway string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Gateway: gateway})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
