package physical

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Moved is how much was moved in what time.
type Moved struct {
	Bytes   int64
	Elapsed time.Duration
}

// MBps is the rate in 10^6 bytes a second.
func (m Moved) MBps() float64 { return float64(m.Bytes) / 1e6 / m.Elapsed.Seconds() }

// Files says what a write loop writes.
type Files struct {
	Dir       string // an empty folder on the disk under test
	FileBytes int
	Bytes     int64         // in all; a last, smaller file makes up the rest
	For       time.Duration // ends it before that; 0: no bound
	AtOnce    int           // files being written at the same time
}

// Write writes durable files until all bytes are written or the time is over: each is created, written, synced, and its folder
// synced. It also returns how long each file took.
func (f Files) Write(ctx context.Context) (Moved, []time.Duration, error) {
	payload := Noise(f.FileBytes)
	var (
		left    atomic.Int64
		number  atomic.Int64
		mu      sync.Mutex
		took    []time.Duration
		written int64
		failed  error
		workers sync.WaitGroup
	)
	left.Store(f.Bytes)
	began := time.Now()
	for range max(f.AtOnce, 1) {
		workers.Go(func() {
			for ctx.Err() == nil && (f.For == 0 || time.Since(began) < f.For) {
				n := min(int64(f.FileBytes), left.Add(-int64(f.FileBytes))+int64(f.FileBytes))
				if n <= 0 {
					return
				}
				start := time.Now()
				err := writeDurable(filepath.Join(f.Dir, fmt.Sprintf("%020d", number.Add(1))), payload[:n])
				mu.Lock()
				took, written = append(took, time.Since(start)), written+n
				if failed == nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return Moved{written, time.Since(began)}, took, failed
}

func writeDurable(path string, payload []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(payload); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Read reads the files one after the other, 1 MiB at a time.
func Read(ctx context.Context, paths []string) (Moved, error) {
	buffer := make([]byte, 1<<20)
	began := time.Now()
	var total int64
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return Moved{}, err
		}
		n, err := readThrough(path, buffer)
		if err != nil {
			return Moved{}, err
		}
		total += n
	}
	return Moved{total, time.Since(began)}, nil
}

func readThrough(path string, buffer []byte) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var total int64
	for {
		n, err := f.Read(buffer)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// Noise returns n bytes that do not compress.
func Noise(n int) []byte {
	b := make([]byte, n)
	state := uint64(0x9E3779B97F4A7C15)
	for i := range b {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		b[i] = byte(state >> 32)
	}
	return b
}
