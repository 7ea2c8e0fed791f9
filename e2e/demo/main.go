// Command demo shows nova's main job on real input: it starts a fleet on a temporary folder, produces
// every line of the Go standard library's net/http sources, one stream a file, hands streams off while
// they are being written, reads all back and compares byte for byte. It exits non-zero on any difference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"nova.internal/e2e/process"
	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
)

func main() {
	nova := flag.String("nova", "bin/nova", "the fleet's binary")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := demo(ctx, *nova); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// source is one file: a stream and its lines.
type source struct {
	name  string
	lines []string
}

func demo(ctx context.Context, binary string) (err error) {
	began := time.Now()
	sources, err := read()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "nova-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fleet, err := process.StartNova(binary, filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer fleet.Kill()
	step := func(format string, args ...any) {
		fmt.Printf("%6.2fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	c, err := client.Dial(ctx, client.Config{Gateway: fleet.Gateway})
	if err != nil {
		return err
	}
	defer c.Close()
	stars, err := c.Fleet(ctx)
	if err != nil {
		return err
	}
	step("a fleet of %d stars serves at %s", len(stars), fleet.Gateway)

	moves, records, bytes, err := produce(ctx, c, sources, stars)
	if err != nil {
		return err
	}
	step("%d records (%.1f MiB) of %d streams acknowledged, %d handoffs meanwhile", records, float64(bytes)/(1<<20), len(sources), moves.total())

	if err := compare(ctx, c, sources); err != nil {
		return err
	}
	step("all streams read back: byte for byte what was produced")
	moves.print()

	code, err := fleet.Stop(45 * time.Second)
	if err != nil || code != 0 {
		return fmt.Errorf("the fleet ended with code %d: %w", code, errors.Join(err, errors.New(fleet.Stderr())))
	}
	step("the fleet stopped cleanly")
	if moves.total() == 0 {
		return errors.New("no stream was handed off while it was written")
	}
	return nil
}

// read collects the sources.
func read() ([]source, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the Go sources: %w", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	var sources []source
	err = filepath.WalkDir(filepath.Join(root, "net", "http"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		sources = append(sources, source{name: filepath.ToSlash(name), lines: strings.SplitAfter(string(text), "\n")})
		return err
	})
	return sources, err
}

// moveLog is who led what from which epoch on.
type moveLog struct {
	mu    sync.Mutex
	lines map[string][]string
}

func (m *moveLog) add(stream, line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines[stream] = append(m.lines[stream], line)
}

func (m *moveLog) total() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, l := range m.lines {
		n += len(l)
	}
	return n
}

// print shows the streams that moved most.
func (m *moveLog) print() {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Println("\n  who led what (streams that moved most):")
	for range min(5, len(m.lines)) {
		most := ""
		for s := range m.lines {
			if most == "" || len(m.lines[s]) > len(m.lines[most]) || len(m.lines[s]) == len(m.lines[most]) && s < most {
				most = s
			}
		}
		shown := m.lines[most]
		more := ""
		if len(shown) > shownMoves {
			more = fmt.Sprintf(" and %d more", len(shown)-shownMoves)
			shown = shown[:shownMoves]
		}
		fmt.Printf("    %-36s %s%s\n", most, strings.Join(shown, ", "), more)
		delete(m.lines, most)
	}
	fmt.Println()
}

const (
	shownMoves = 5 // of one stream, in the timeline
	writers    = 24
	chunk      = 40 // lines between two looks at the clock
	chunkWait  = 2 * time.Millisecond
)

// produce writes all sources, a stream each, while another goroutine hands streams off that are being
// written.
func produce(ctx context.Context, c *client.Client, sources []source, stars []*novav1.FleetStar) (*moveLog, int, int, error) {
	var records, size atomic.Int64
	var mu sync.Mutex
	writing := map[string]bool{}
	moves := &moveLog{lines: map[string][]string{}}
	movers, stop := context.WithCancel(ctx)
	defer stop()
	var moving sync.WaitGroup
	for range 2 {
		moving.Go(func() { handOff(movers, c, stars, &mu, writing, moves) })
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, src := range sources {
		group.Go(func() error {
			if _, err := c.Create(ctx, src.name, novav1.Mode_MODE_ANY, novav1.Class_CLASS_STANDARD); err != nil {
				return err
			}
			p, err := c.Producer(ctx, src.name, client.ProducerOptions{})
			if err != nil {
				return err
			}
			mu.Lock()
			writing[src.name] = true
			mu.Unlock()
			defer func() {
				mu.Lock()
				delete(writing, src.name)
				mu.Unlock()
			}()
			var waits []*client.Pending
			for i, line := range src.lines {
				waits = append(waits, p.Append(ctx, batch.Record{Value: []byte(line), Time: time.Now()}))
				size.Add(int64(len(line)))
				if i%chunk == chunk-1 {
					time.Sleep(chunkWait) // as a source of lines would, and so that the file takes a moment
				}
			}
			for i, w := range waits {
				sequence, err := w.Wait(ctx)
				if err != nil {
					return fmt.Errorf("%s, line %d: %w", src.name, i+1, err)
				}
				if sequence != uint64(i) {
					return fmt.Errorf("%s, line %d was acknowledged at sequence %d", src.name, i+1, sequence)
				}
			}
			records.Add(int64(len(waits)))
			return p.Close(ctx)
		})
	}
	err := group.Wait()
	stop()
	moving.Wait()
	return moves, int(records.Load()), int(size.Load()), err
}

// handOff moves streams that are being written, one after the other, until ctx ends. A refusal is
// nothing to worry about: the stream may have been closed in between.
func handOff(ctx context.Context, c *client.Client, stars []*novav1.FleetStar, mu *sync.Mutex, writing map[string]bool, moves *moveLog) {
	for ctx.Err() == nil {
		mu.Lock()
		stream := ""
		for stream = range writing { // a map's order is random enough
			break
		}
		mu.Unlock()
		target := stars[rand.IntN(len(stars))].GetStar().GetStar()
		if stream == "" {
			time.Sleep(time.Millisecond)
			continue
		}
		r, err := c.Handoff(ctx, stream, target)
		if err == nil {
			moves.add(stream, fmt.Sprintf("%s at epoch %d → %s", r.GetFrom(), r.GetEpoch(), r.GetTo()))
		}
	}
}

// compare reads every stream back and holds it against its source.
func compare(ctx context.Context, c *client.Client, sources []source) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, src := range sources {
		group.Go(func() error {
			r, err := c.Reader(ctx, src.name, client.ReaderOptions{})
			if err != nil {
				return err
			}
			defer r.Close()
			for i := 0; ; i++ {
				record, err := r.Next(ctx)
				if errors.Is(err, io.EOF) {
					if i != len(src.lines) {
						return fmt.Errorf("%s: read %d records of %d", src.name, i, len(src.lines))
					}
					return nil
				}
				if err != nil {
					return fmt.Errorf("read %s: %w", src.name, err)
				}
				if i >= len(src.lines) || string(record.Value) != src.lines[i] || record.Sequence != uint64(i) {
					return fmt.Errorf("%s: record %d differs from line %d", src.name, record.Sequence, i+1)
				}
			}
		})
	}
	return group.Wait()
}
