package flightlog_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/flightlog"
)

// The same bytes to the same disk, by the writer and by a plain loop that writes and fsyncs each flight
// under its name with its folder: what the writer costs is the difference.
//
//	loop/1      one flight after the other
//	loop/4      four at a time, as the writer's pipeline has them
//	writer/1    class standard: one copy
//	writer/3    class express: a quorum of three copies on one disk, so about three times the bytes
func BenchmarkFlights(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20, 2 << 20} {
		name := fmt.Sprintf("%dKiB", size>>10)
		b.Run("loop/1/"+name, func(b *testing.B) { benchLoop(b, size, 1) })
		b.Run("loop/4/"+name, func(b *testing.B) { benchLoop(b, size, 4) })
		b.Run("writer/1/"+name, func(b *testing.B) { benchWriter(b, size, 1) })
		b.Run("writer/3/"+name, func(b *testing.B) { benchWriter(b, size, 3) })
	}
}

func benchLoop(b *testing.B, size, parallel int) {
	dir := b.TempDir()
	payload := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	b.SetBytes(int64(size))
	b.ResetTimer()
	slots := make(chan int)
	var work sync.WaitGroup
	for range parallel {
		work.Go(func() {
			for slot := range slots {
				if err := plainPut(filepath.Join(dir, fmt.Sprintf("%020d", slot)), payload); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for slot := range b.N {
		slots <- slot
	}
	close(slots)
	work.Wait()
}

// plainPut writes a durable file in the shortest way.
func plainPut(path string, payload []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(payload); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	return d.Close()
}

// benchWriter adds batches of 16 KiB until b.N flights' worth are committed.
func benchWriter(b *testing.B, size, copies int) {
	set := &flightlog.Copies{Class: novav1.Class_CLASS_EXPRESS}
	for i := range copies {
		c := mustOpen(b, "file://"+filepath.Join(b.TempDir(), fmt.Sprint(i)))
		id, err := flightlog.Format(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		set.List = append(set.List, flightlog.Admit(c, id))
	}
	const batchBytes = 16 << 10
	records := bytes.Repeat([]byte("0123456789abcdef"), batchBytes/16)
	crc, stream := batch.CRC(records), streamID(1)
	flights := 0
	w := flightlog.NewWriter(flightlog.WriterConfig{
		Chain: testChain, Copies: set, Linger: 20 * time.Millisecond, FlightBytes: size, Depth: 4, OnCommit: func(flightlog.Committed) { flights++ },
	})
	b.SetBytes(int64(size))
	b.ResetTimer()
	total := b.N * size / batchBytes
	for i := range total {
		if err := w.Add(context.Background(), flightlog.Batch{Stream: stream, Epoch: 1, Base: uint64(i), Count: 1, CRC: crc, Records: records}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(total*batchBytes)/float64(flights)/1024, "KiB/flight")
}

// One small batch at a time, each waited for: the latency of a commit.
func BenchmarkCommitLatency(b *testing.B) {
	for _, copies := range []int{1, 3} {
		b.Run(fmt.Sprint(copies), func(b *testing.B) {
			set := &flightlog.Copies{Class: novav1.Class_CLASS_EXPRESS}
			for i := range copies {
				set.List = append(set.List, mustOpen(b, "file://"+filepath.Join(b.TempDir(), fmt.Sprint(i))))
			}
			committed := make(chan struct{})
			w := flightlog.NewWriter(flightlog.WriterConfig{Chain: testChain, Copies: set, OnCommit: func(flightlog.Committed) { committed <- struct{}{} }})
			one := makeBatch(1, 0, 1, 1000)
			b.ResetTimer()
			for i := range b.N {
				one.Base = uint64(i)
				if err := w.Add(context.Background(), one); err != nil {
					b.Fatal(err)
				}
				<-committed
			}
			b.StopTimer()
			if err := w.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// A thousand batches of 1 KiB in a flight, laid out and read back.
func BenchmarkCodec(b *testing.B) {
	set, copies := express(b)
	records := bytes.Repeat([]byte("x"), 1000)
	var batches []flightlog.Batch
	for i := range 1000 {
		batches = append(batches, flightlog.Batch{Stream: streamID(i % 50), Epoch: 1, Base: uint64(i), Count: 1, CRC: crc32.Checksum(records, crc32.MakeTable(crc32.Castagnoli)), Records: records})
	}
	refs := written(b, set, batches, 2<<20)
	object, err := copies[0].Get(context.Background(), flightlog.SlotKey(testChain, refs[len(refs)-1].Slot))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(len(object)))
		b.ReportAllocs()
		for range b.N {
			if _, err := flightlog.Verify(object); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("prefix", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := flightlog.DecodePrefix(object); err != nil {
				b.Fatal(err)
			}
		}
	})
}
