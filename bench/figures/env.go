package figures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"nova.internal/bench/figure"
)

// Size is how much is measured.
type Size struct {
	Rounds      int
	RecordBytes int
	FlightBytes int
	Bytes       int64         // of one throughput run
	For         time.Duration // bound of one run, however much it has moved
	Many        int           // streams, where a figure is about many
	Most        int           // streams, where it is about very many
	Samples     int           // of a latency
	Unabsorbed  time.Duration // how long a killed star had been written to
}

// FullSize is what the tables in docs/performance.md were made with.
func FullSize() Size {
	return Size{
		Rounds: 5, RecordBytes: 1024, FlightBytes: 2 << 20, Bytes: 256 << 20, For: 5 * time.Second,
		Many: 1000, Most: 10000, Samples: 2000, Unabsorbed: 30 * time.Second,
	}
}

// Env is what a figure is given.
type Env struct {
	Size
	Dir string    // an empty folder on the disk under test
	Log io.Writer // what is going on, for a person
}

// folder makes an empty folder below Dir. The returned function removes it with all that is in it.
func (e *Env) folder(name string) (string, func() error, error) {
	path, err := os.MkdirTemp(e.Dir, name+"-")
	if err != nil {
		return "", nil, err
	}
	path, err = filepath.Abs(path)
	return path, func() error { return os.RemoveAll(path) }, err
}

func (e *Env) note(format string, args ...any) {
	fmt.Fprintf(e.Log, "%s   "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// measure returns one number, in the figure's unit.
type measure func(ctx context.Context) (float64, error)

// rounds measures subject and baseline in turns. Which goes first alternates, so that neither always
// meets what the other left behind.
func (e *Env) rounds(ctx context.Context, name string, baseline, subject measure) ([]figure.Pair, error) {
	pairs := make([]figure.Pair, e.Rounds)
	for i := range pairs {
		turns := []struct {
			what string
			m    measure
			into *float64
		}{{"baseline", baseline, &pairs[i].Baseline}, {"subject", subject, &pairs[i].Value}}
		if i%2 == 1 {
			turns[0], turns[1] = turns[1], turns[0]
		}
		for _, turn := range turns {
			settle()
			v, err := turn.m(ctx)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", i+1, turn.what, err)
			}
			*turn.into = v
		}
		e.note("%s: round %d: %.4g against %.4g", name, i+1, pairs[i].Value, pairs[i].Baseline)
	}
	return pairs, nil
}

// with runs f in a folder of its own and removes it.
func (e *Env) with(name string, f func(dir string) (float64, error)) (v float64, err error) {
	dir, remove, err := e.folder(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return f(dir)
}
