package gateway

import (
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/flightlog"
)

// publish writes a flight with batches of two records into a copy, and the segment row and head over it.
func (f *testFleet) publish(url, id string, batches int) {
	f.t.Helper()
	c, err := flightlog.OpenCopy(url)
	if err != nil {
		f.t.Fatal(err)
	}
	identity, err := flightlog.Format(f.ctx(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.meta.Rows().PutAny(f.ctx(), coord.CopyKey(novav1.Class_CLASS_STANDARD, 0), &novav1.CopyRow{Identity: identity}); err != nil {
		f.t.Fatal(err)
	}
	chain := "gone/" + ulid.Make().String() + "/standard"
	seg := &novav1.SegmentRow{Epoch: 1, Chains: []string{chain}, CleanRelease: true}
	var object []byte
	for i := range batches {
		records := fmt.Appendf(nil, "records of batch %d", i)
		seg.Refs = append(seg.Refs, &novav1.Ref{
			Slot: 1, Offset: uint64(len(object)), Length: uint32(len(records)), Base: uint64(2 * i), Count: 2,
			Crc32C: crc32.Checksum(records, crc32.MakeTable(crc32.Castagnoli)),
		})
		object = append(object, records...)
	}
	seg.End = uint64(2 * batches)
	if err := c.Put(f.ctx(), flightlog.SlotKey(chain, 1), object); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.meta.Rows().PutAny(f.ctx(), coord.SegmentKey(id, 0), seg); err != nil {
		f.t.Fatal(err)
	}
	f.setHead(clean(id, seg.End))
}

func TestPublishedRecordsAreReadWithoutAnyStar(t *testing.T) {
	url := "mem://" + ulid.Make().String()
	f := newFleet(t, func(c *Config) { c.Standard = []string{url} })
	f.publish(url, f.create("orders").GetId(), 3)
	f.start()
	m, err := f.read(&novav1.ReadRequest{Name: "orders", From: 3, Limit: 1}).call.Recv()
	if err != nil || len(m.GetBatches()) != 1 || string(m.GetBatches()[0].GetRecords()) != "records of batch 1" {
		t.Fatalf("got %v, %v", m, err)
	}
	f.read(&novav1.ReadRequest{Name: "orders"}).want("0+2", "2+2", "4+2", "=6")
	f.read(&novav1.ReadRequest{Name: "orders", From: 2, Limit: 2}).want("2+2")
	f.read(&novav1.ReadRequest{Name: "orders", Last: true}).want("4+2", "=6")
	f.read(&novav1.ReadRequest{Name: "orders", From: 9}).want("=6")
}

func TestALedStreamsPublishedRecordsComeFromTheCopiesAndItsTailFromTheLeader(t *testing.T) {
	url := "mem://" + ulid.Make().String()
	f := newFleet(t, func(c *Config) { c.Standard = []string{url} })
	id := f.create("orders").GetId()
	f.publish(url, id, 3)
	a := f.star("a")
	a.serves(10)
	a.lease(id)
	f.start()
	f.read(&novav1.ReadRequest{Name: "orders"}).want("0+2", "2+2", "4+2", "6+2", "8+2", "=10")
	if got := a.asked(); len(got) != 1 || got[0].GetFrom() != 6 {
		t.Errorf("the leader was asked %v", got)
	}
}

func TestPublishedRecordsComeFromAStarWhereTheCopiesCannotBeRead(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.Standard = []string{"mem://" + ulid.Make().String()} }) // unknown to the fleet
	f.setHead(clean(f.create("orders").GetId(), 4))
	a := f.star("a")
	a.serves(4)
	f.start()
	f.read(&novav1.ReadRequest{Name: "orders"}).want("0+2", "2+2", "=4")
}
