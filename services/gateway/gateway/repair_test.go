package gateway

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/batch"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// A gateway that reads from the copies repairs what it finds damaged there, without any star.
func TestAReadAtTheGatewayRepairsADamagedCopy(t *testing.T) {
	urls, set := make([]string, 3), &flightlog.Copies{Class: novav1.Class_CLASS_EXPRESS}
	for i := range urls {
		urls[i] = "mem://" + ulid.Make().String()
	}
	f := newFleet(t, func(c *Config) { c.Express = urls })
	for i, url := range urls {
		c, err := flightlog.OpenCopy(url)
		if err != nil {
			t.Fatal(err)
		}
		id, err := flightlog.Format(f.ctx(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.meta.Rows().PutAny(f.ctx(), coord.CopyKey(novav1.Class_CLASS_EXPRESS, i), &novav1.CopyRow{Identity: id}); err != nil {
			t.Fatal(err)
		}
		set.List = append(set.List, c)
	}
	name := f.createAs("orders", novav1.Class_CLASS_EXPRESS)
	chain := "gone/" + ulid.Make().String() + "/express"
	seg := &novav1.SegmentRow{Epoch: 1, Chains: []string{chain}, CleanRelease: true, End: 1}
	records := batch.Append(nil, batch.Record{Value: []byte("x")})
	w := flightlog.NewWriter(flightlog.WriterConfig{Chain: chain, Copies: set, OnCommit: func(c flightlog.Committed) {
		b := c.Batches[0]
		seg.Refs = append(seg.Refs, &novav1.Ref{Slot: b.Slot, Offset: b.Offset, Length: b.Length, Count: 1, Crc32C: b.CRC})
	}})
	if err := w.Add(f.ctx(), flightlog.Batch{Stream: name.GetId(), Epoch: 1, Count: 1, CRC: batch.CRC(records), Records: records}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(f.ctx()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.meta.Rows().PutAny(f.ctx(), coord.SegmentKey(name.GetId(), 0), seg); err != nil {
		t.Fatal(err)
	}
	f.setHead(clean(name.GetId(), 1))
	key := flightlog.SlotKey(chain, 0)
	flightlogtest.FlipBit(t, set.List[1], key, -1)
	f.start()
	whole := func() bool {
		b, err := set.List[1].Get(f.ctx(), key)
		if err == nil {
			_, err = flightlog.Verify(b)
		}
		return err == nil
	}
	for deadline := time.Now().Add(20 * time.Second); !whole(); {
		if time.Now().After(deadline) {
			t.Fatal("the damaged copy was not repaired")
		}
		f.read(&novav1.ReadRequest{Name: "orders"}).want("0+1", "=1")
	}
}
