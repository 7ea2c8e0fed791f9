package coord_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

func BenchmarkCompareAndSet(b *testing.B) {
	f := newFleet(b)
	k, v := coord.HeadKey("s"), coord.Absent
	for b.Loop() {
		v = put(b, f, k, &novav1.HeadRow{Epoch: 7}, v)
	}
}

func BenchmarkRead(b *testing.B) {
	f := newFleet(b)
	put(b, f, coord.HeadKey("s"), &novav1.HeadRow{Epoch: 7}, coord.Absent)
	for b.Loop() {
		if _, err := f.Rows().Get(b.Context(), coord.HeadKey("s"), &novav1.HeadRow{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLease(b *testing.B) {
	f := newFleet(b)
	register(b, f, star("a", "A1"))
	for b.Loop() {
		if err := f.Leases().Release(b.Context(), acquire(b, f, "s")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkManyWriters(b *testing.B) {
	for name, rows := range map[string]func(*coord.Fleet) *coord.Rows{
		"at once":   (*coord.Fleet).Rows,
		"lingering": func(f *coord.Fleet) *coord.Rows { return f.Rows().Lingering() },
	} {
		b.Run(name, func(b *testing.B) {
			f := newFleet(b)
			var stream atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				k := coord.HeadKey(strconv.FormatInt(stream.Add(1), 10))
				for pb.Next() {
					if _, err := rows(f).PutAny(b.Context(), k, &novav1.HeadRow{Epoch: 7}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
