package star

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
)

// BenchmarkAppend measures batches of 1 KiB records from producers over loopback gRPC to
// acknowledgements, files and folders fsynced, beside a loop that writes and fsyncs flight-sized files.
// For profiles; the figures that are kept come from `make bench`.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{64 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB/loop", size>>10), func(b *testing.B) { benchLoop(b, size) })
		for _, streams := range []int{1, 8, 1000} {
			b.Run(fmt.Sprintf("%dKiB/star/streams=%d", size>>10, streams), func(b *testing.B) { benchStar(b, size, streams) })
		}
	}
}

// benchLoop is the least that a durable append can cost: a new file of 2 MiB, fsynced with its folder.
func benchLoop(b *testing.B, size int) {
	dir := b.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const flight = 2 << 20
	data := make([]byte, flight)
	b.SetBytes(int64(size))
	for i := 0; i < b.N*size; i += flight {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		_, err = f.Write(data)
		if err == nil {
			err = f.Sync()
		}
		if err == nil {
			err = f.Close()
		}
		if err == nil {
			err = d.Sync()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchStar(b *testing.B, size, streams int) {
	dir := b.TempDir()
	f := newFleet(b, func(cfg *Config) { cfg.Standard = []string{"file://" + dir} })
	f.start("a")
	conn := f.conn("a")
	var records []byte
	value := make([]byte, 1<<10)
	n := 0
	for ; len(records)+len(value) <= size; n++ {
		records = batch.Append(records, batch.Record{Value: value})
	}
	crc := batch.CRC(records)
	calls := make([]novav1.Streams_ProduceClient, streams)
	var open sync.WaitGroup
	for i := range calls {
		row := f.create(fmt.Sprintf("s/%d", i), novav1.Mode_MODE_ANY, novav1.Class_CLASS_STANDARD)
		open.Go(func() {
			call, err := novav1.NewStreamsClient(conn).Produce(b.Context())
			if err == nil {
				err = call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Open{Open: &novav1.Open{Name: row.GetName(), Producer: ulid.Make().String()}}})
			}
			if err == nil {
				_, err = call.Recv()
			}
			if err != nil {
				b.Error(err)
				return
			}
			calls[i] = call
		})
	}
	open.Wait()
	if b.Failed() {
		return
	}
	depth := max(1, 8<<20/size/streams)
	b.SetBytes(int64(len(records)))
	b.ResetTimer()
	var sent atomic.Int64
	var work sync.WaitGroup
	for _, call := range calls {
		work.Go(func() {
			number, acked := uint64(0), uint64(0)
			for {
				for number-acked < uint64(depth) && sent.Add(1) <= int64(b.N) {
					number++
					if err := call.Send(&novav1.ProduceRequest{Kind: &novav1.ProduceRequest_Append{Append: &novav1.Append{Number: number, Count: uint32(n), Crc32C: crc, Records: records}}}); err != nil {
						b.Error(err)
						return
					}
				}
				if acked == number {
					return
				}
				if _, err := call.Recv(); err != nil {
					b.Error(err)
					return
				}
				acked++
			}
		})
	}
	work.Wait()
	b.StopTimer()
}
