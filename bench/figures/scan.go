package figures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"nova.internal/bench/figure"
	"nova.internal/bench/physical"
	"nova.internal/bench/rig"
	"nova.internal/libs/client"
)

// scans are the rates of reading what lies on the copies.
func scans() []Figure {
	return []Figure{{
		figure.Spec{Name: "cold-scan", Unit: "MB/s", Against: "the lesser of: the same files read by a plain loop; gRPC alone with messages of 1 MiB", Target: figure.AtLeast(0.7)},
		coldScan,
	}}
}

// scanMessageBytes is what one answer of a gateway carries about.
const scanMessageBytes = 1 << 20

// coldScan reads a whole stream through the gateway by the SDK. Nothing of it is in any cache: the fleet
// that wrote it was stopped, and the kernel was made to forget its files before each read.
func coldScan(ctx context.Context, e *Env, s figure.Spec) (figure.Result, error) {
	var pairs []figure.Pair
	var note string
	_, err := e.with("fleet", func(dir string) (_ float64, err error) {
		name, bytes, err := e.write(ctx, dir)
		if err != nil {
			return 0, err
		}
		paths, _, err := rig.Objects(dir)
		if err != nil {
			return 0, err
		}
		alone, err := physical.StartGRPC(scanMessageBytes)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, alone.Stop()) }()
		b, err := e.boardIn(ctx, dir, nil)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		var files, stream []float64
		baseline := func(ctx context.Context) (float64, error) {
			if err := physical.Cool(paths); err != nil {
				return 0, err
			}
			file, err := physical.Read(ctx, paths)
			if err != nil {
				return 0, err
			}
			grpc, err := alone.Receive(ctx, bytes)
			files, stream = append(files, file.MBps()), append(stream, grpc.MBps())
			return min(file.MBps(), grpc.MBps()), err
		}
		subject := func(ctx context.Context) (float64, error) {
			if err := physical.Cool(paths); err != nil {
				return 0, err
			}
			moved, err := b.scan(ctx, name)
			if err == nil && moved.Bytes != bytes {
				err = fmt.Errorf("%d bytes were written and %d read", bytes, moved.Bytes)
			}
			return moved.MBps(), err
		}
		pairs, err = e.rounds(ctx, s.Name, baseline, subject)
		note = fmt.Sprintf("%d MiB in %d flights; files alone %.0f MB/s, gRPC alone %.0f MB/s", bytes>>20, len(paths), figure.Median(files), figure.Median(stream))
		return 0, err
	})
	return finish(s, pairs, note, err)
}

// write runs a fleet that writes one stream and stops, so that all of it is published.
func (e *Env) write(ctx context.Context, dir string) (name string, bytes int64, err error) {
	b, err := e.boardIn(ctx, dir, nil)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	names, err := b.Create(ctx, "cold", 1, standard)
	if err != nil {
		return "", 0, err
	}
	moved, err := rig.Load{RecordBytes: e.RecordBytes, Bytes: e.Bytes, For: 4 * e.For}.Run(ctx, b.clients[rig.Direct], names)
	return names[0], moved.Bytes, err
}

// scan reads a stream from its first record to its end.
func (b *board) scan(ctx context.Context, name string) (physical.Moved, error) {
	began := time.Now()
	r, err := b.clients[rig.Gateway].Reader(ctx, name, client.ReaderOptions{})
	if err != nil {
		return physical.Moved{}, err
	}
	defer r.Close()
	var bytes int64
	for {
		record, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return physical.Moved{Bytes: bytes, Elapsed: time.Since(began)}, nil
		}
		if err != nil {
			return physical.Moved{}, err
		}
		bytes += int64(len(record.Value))
	}
}
