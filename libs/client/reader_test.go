package client_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

// filledFleet has the stream "s" with records 0 to n-1 in batches of three.
func filledFleet(t *testing.T, opts clienttest.Options, n int) *clienttest.Fleet {
	t.Helper()
	f := clienttest.New(t, opts)
	f.Create("s", novav1.Mode_MODE_ANY)
	p := produce(t, dial(t, f, false), "s", client.ProducerOptions{})
	for i := 0; i < n; i += 3 {
		p.Append(t.Context(), value("%d", i), value("%d", i+1), value("%d", i+2))
		if err := p.Flush(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	return f
}

// readAll reads to the end, checks that values and sequences agree, and returns first and count.
func readAll(t *testing.T, r *client.Reader) (sequences []uint64, err error) {
	t.Helper()
	for {
		rec, err := r.Next(within(t))
		if err != nil {
			return sequences, err
		}
		if want := value("%d", rec.Sequence).Value; string(want) != string(rec.Value) {
			t.Errorf("sequence %d holds %q", rec.Sequence, rec.Value)
		}
		sequences = append(sequences, rec.Sequence)
	}
}

func reader(t *testing.T, c *client.Client, opts client.ReaderOptions) *client.Reader {
	t.Helper()
	r, err := c.Reader(t.Context(), "s", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestReaderShowsWhatWasAskedFor(t *testing.T) {
	f := filledFleet(t, clienttest.Options{Stars: 2}, 30)
	tests := map[string]struct {
		opts        client.ReaderOptions
		first, last int
	}{
		"everything":                       {client.ReaderOptions{}, 0, 29},
		"from within a batch":              {client.ReaderOptions{From: 10}, 10, 29},
		"a limit within a batch":           {client.ReaderOptions{From: 10, Limit: 3}, 10, 12},
		"a limit of one whole batch":       {client.ReaderOptions{From: 9, Limit: 3}, 9, 11},
		"the newest record":                {client.ReaderOptions{Last: true}, 29, 29},
		"nothing from the end on":          {client.ReaderOptions{From: 30}, 0, -1},
		"following as far as the limit":    {client.ReaderOptions{Limit: 30, Follow: true}, 0, 29},
		"a limit that the end comes first": {client.ReaderOptions{Limit: 99}, 0, 29},
	}
	for name, tc := range tests {
		for _, direct := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				got, err := readAll(t, reader(t, dial(t, f, direct), tc.opts))
				if !errors.Is(err, io.EOF) {
					t.Errorf("it ended with %v", err)
				}
				var want []uint64
				for i := tc.first; i <= tc.last; i++ {
					want = append(want, uint64(i))
				}
				if !slices.Equal(got, want) {
					t.Errorf("read %v, want %v", got, want)
				}
			})
		}
	}
}

func TestReaderGoesOnAtTheNextSequenceWhateverBreaks(t *testing.T) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(7, 7))
	f := filledFleet(t, clienttest.Options{Stars: 2, ReadFault: func() bool {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(3) == 0
	}}, 60)
	for _, direct := range []bool{false, true} {
		got, err := readAll(t, reader(t, dial(t, f, direct), client.ReaderOptions{}))
		if !errors.Is(err, io.EOF) || len(got) != 60 {
			t.Errorf("direct=%v: %d records, then %v", direct, len(got), err)
		}
	}
}

func TestFollowingReaderSeesNewRecordsAndSurvivesACutConnection(t *testing.T) {
	f := filledFleet(t, clienttest.Options{}, 3)
	c := dial(t, f, false)
	r := reader(t, c, client.ReaderOptions{Follow: true})
	next := func(want uint64) {
		t.Helper()
		rec, err := r.Next(within(t))
		if err != nil || rec.Sequence != want {
			t.Fatalf("Next returned %d, %v; want %d", rec.Sequence, err, want)
		}
	}
	for i := range uint64(3) {
		next(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next at the end: %v", err)
	}
	p := produce(t, c, "s", client.ProducerOptions{})
	wantBase(t, p.Append(t.Context(), value("3")), 3)
	next(3)
	f.CutConnections()
	wantBase(t, p.Append(t.Context(), value("4")), 4)
	next(4)
}

func TestReaderFollowsTheLeaderDirectly(t *testing.T) {
	f := filledFleet(t, clienttest.Options{Stars: 3}, 9)
	f.Lead("s", 2)
	c := dial(t, f, true)
	if got, err := readAll(t, reader(t, c, client.ReaderOptions{})); !errors.Is(err, io.EOF) || len(got) != 9 {
		t.Errorf("%d records, then %v", len(got), err)
	}
	f.Lead("s", 1) // the memory is wrong now
	if got, err := readAll(t, reader(t, c, client.ReaderOptions{})); !errors.Is(err, io.EOF) || len(got) != 9 {
		t.Errorf("after a move: %d records, then %v", len(got), err)
	}
}

func TestReaderNeverShowsADamagedStream(t *testing.T) {
	tests := map[string]func(b []*novav1.ReadBatch) []*novav1.ReadBatch{
		"a missing batch":  func(b []*novav1.ReadBatch) []*novav1.ReadBatch { return append(b[:1:1], b[2:]...) },
		"a repeated batch": func(b []*novav1.ReadBatch) []*novav1.ReadBatch { return slices.Insert(slices.Clone(b), 1, b[0]) },
		"a changed byte": func(b []*novav1.ReadBatch) []*novav1.ReadBatch {
			b[1].Records[len(b[1].Records)-2]++
			return b
		},
		"a wrong count": func(b []*novav1.ReadBatch) []*novav1.ReadBatch { b[1].Count = 2; return b },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			f := filledFleet(t, clienttest.Options{}, 9)
			f.Corrupt("s", change)
			r := reader(t, dial(t, f, false), client.ReaderOptions{})
			got, err := readAll(t, r)
			var corrupt *client.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Sequence != 3 || !slices.Equal(got, []uint64{0, 1, 2}) {
				t.Errorf("read %v, then %v", got, err)
			}
			if _, again := r.Next(within(t)); !errors.Is(again, err) {
				t.Errorf("the next Next returned %v", again)
			}
		})
	}
}

func TestReaderGivesUp(t *testing.T) {
	c, err := client.Dial(t.Context(), client.Config{Gateway: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := reader(t, c, client.ReaderOptions{GiveUp: 100 * time.Millisecond})
	var unavailable *api.UnavailableError
	if _, err := r.Next(within(t)); !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("Next: %v", err)
	}
}

func TestReaderOfAnAbsentStreamStops(t *testing.T) {
	c := dial(t, clienttest.New(t, clienttest.Options{}), false)
	if _, err := reader(t, c, client.ReaderOptions{}).Next(within(t)); !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("Next: %v", err)
	}
	if _, err := c.Reader(t.Context(), "s", client.ReaderOptions{Last: true}); !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("Reader with Last: %v", err)
	}
}

func TestClosedReaderSaysSo(t *testing.T) {
	f := filledFleet(t, clienttest.Options{}, 3)
	r := reader(t, dial(t, f, false), client.ReaderOptions{})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(within(t)); !errors.Is(err, client.ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
}
