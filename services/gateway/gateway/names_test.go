package gateway

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

func (f *testFleet) mustCreate(r *novav1.CreateRequest) *novav1.StreamInfo {
	f.t.Helper()
	info, err := f.streams.Create(f.ctx(), r)
	if err != nil {
		f.t.Fatal(api.FromError(err))
	}
	return info
}

func TestAStreamIsCreatedOnce(t *testing.T) {
	f := newFleet(t, nil).start()
	first := f.mustCreate(&novav1.CreateRequest{Name: "a/b c"})
	want := &novav1.StreamInfo{Name: "a/b c", Mode: novav1.Mode_MODE_ANY, Class: novav1.Class_CLASS_STANDARD, NextKnown: true}
	if diff := cmp.Diff(want, first, protocmp.Transform(), protocmp.IgnoreFields(want, "id", "created_unix_ms")); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	again := f.mustCreate(&novav1.CreateRequest{Name: "a/b c", Mode: novav1.Mode_MODE_ANY, Class: novav1.Class_CLASS_STANDARD})
	if again.GetId() != first.GetId() {
		t.Errorf("a repeat made another stream: %s, %s", first.GetId(), again.GetId())
	}
	for _, other := range []*novav1.CreateRequest{{Name: "a/b c", Mode: novav1.Mode_MODE_FENCED}, {Name: "a/b c", Class: novav1.Class_CLASS_EXPRESS}} {
		if _, err := f.streams.Create(f.ctx(), other); !errors.Is(api.FromError(err), api.ErrStreamExists) {
			t.Errorf("%v: %v", other, err)
		}
	}
	for _, bad := range []*novav1.CreateRequest{{}, {Name: "x", Mode: 9}, {Name: "x", Class: 9}} {
		var field *api.FieldError
		if _, err := f.streams.Create(f.ctx(), bad); !errors.As(api.FromError(err), &field) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestADeletedStreamsNameIsFreeForAnother(t *testing.T) {
	f := newFleet(t, nil).start()
	first := f.mustCreate(&novav1.CreateRequest{Name: "orders"})
	f.setHead(clean(first.GetId(), 4))
	if _, err := f.meta.Rows().PutAny(f.ctx(), coord.SegmentKey(first.GetId(), 0), &novav1.SegmentRow{End: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.streams.Delete(f.ctx(), &novav1.DeleteRequest{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.streams.Delete(f.ctx(), &novav1.DeleteRequest{Name: "orders"}); !errors.Is(api.FromError(err), api.ErrUnknownStream) {
			t.Errorf("deleted again: %v", err)
		}
	}
	head := &novav1.HeadRow{}
	if _, err := f.meta.Rows().Get(f.ctx(), coord.HeadKey(first.GetId()), head); err != nil || !head.GetDeleted() {
		t.Errorf("the head is no gravestone: %v, %v", head, err)
	}
	if _, err := f.meta.Rows().Get(f.ctx(), coord.SegmentKey(first.GetId(), 0), &novav1.SegmentRow{}); !errors.Is(err, coord.ErrNotFound) {
		t.Errorf("a segment row is left: %v", err)
	}
	second := f.mustCreate(&novav1.CreateRequest{Name: "orders", Mode: novav1.Mode_MODE_FENCED})
	if second.GetId() == first.GetId() || second.GetMode() != novav1.Mode_MODE_FENCED {
		t.Errorf("got %v", second)
	}
}

func TestADeletionThatWasLeftHalfDoneIsFinished(t *testing.T) {
	f := newFleet(t, nil).start()
	first := f.mustCreate(&novav1.CreateRequest{Name: "orders"})
	f.setHead(&novav1.HeadRow{Id: first.GetId(), Deleted: true})
	if _, err := f.streams.Describe(f.ctx(), &novav1.DescribeRequest{Name: "orders"}); !errors.Is(api.FromError(err), api.ErrUnknownStream) {
		t.Errorf("a stream that is being deleted was described: %v", err)
	}
	if second := f.mustCreate(&novav1.CreateRequest{Name: "orders", Class: novav1.Class_CLASS_EXPRESS}); second.GetId() == first.GetId() {
		t.Error("the dead stream was returned")
	}
	third := f.mustCreate(&novav1.CreateRequest{Name: "other"})
	f.setHead(&novav1.HeadRow{Id: third.GetId(), Deleted: true})
	if _, err := f.streams.Delete(f.ctx(), &novav1.DeleteRequest{Name: "other"}); err != nil {
		t.Errorf("the deletion was not resumed: %v", err)
	}
}

func TestADescriptionKnowsTheEndWhereAnybodyDoes(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.next = 9
	led, vacant, dirty := f.create("led"), f.create("vacant"), f.create("dirty")
	a.lease(led.GetId())
	f.setHead(clean(led.GetId(), 4))
	f.setHead(clean(vacant.GetId(), 4))
	unmarked := clean(dirty.GetId(), 4)
	unmarked.Last.CleanRelease = false
	f.setHead(unmarked)
	if _, err := f.meta.Rows().PutAny(f.ctx(), coord.SegmentKey(vacant.GetId(), 0), &novav1.SegmentRow{End: 4}); err != nil {
		t.Fatal(err)
	}
	f.start()
	for name, want := range map[string]*novav1.StreamInfo{
		"led":    {Leader: "a", LeaderAddress: a.addr, Epoch: 7, Covered: 4, Next: 9, NextKnown: true, Clean: true},
		"vacant": {Epoch: 1, Covered: 4, Next: 4, NextKnown: true, Clean: true, Segments: 1},
		"dirty":  {Epoch: 1, Covered: 4, Next: 4},
	} {
		got, err := f.streams.Describe(f.ctx(), &novav1.DescribeRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "id", "name", "mode", "class", "created_unix_ms")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStreamsAreListedByPrefix(t *testing.T) {
	f := newFleet(t, nil)
	for _, name := range []string{"orders", "orders/eu", "bills"} {
		f.create(name)
	}
	f.start()
	call, err := f.streams.List(f.ctx(), &novav1.ListRequest{Prefix: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		info, err := call.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.GetName())
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"orders", "orders/eu"}, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}
