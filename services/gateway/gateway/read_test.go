package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// reader is one Read through the gateway.
type reader struct {
	t      *testing.T
	call   novav1.Streams_ReadClient
	cancel context.CancelFunc
}

func (f *testFleet) read(r *novav1.ReadRequest) *reader {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx())
	f.t.Cleanup(cancel)
	call, err := f.streams.Read(ctx, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return &reader{f.t, call, cancel}
}

// all receives until the call ends and returns what came, as text: "base+count" for a batch, "=end" for
// being caught up.
func (r *reader) all() (got []string, err error) {
	for {
		m, err := r.call.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, api.FromError(err)
		}
		got = append(got, texts(m)...)
	}
}

func texts(m *novav1.ReadResponse) (got []string) {
	for _, b := range m.GetBatches() {
		got = append(got, fmt.Sprintf("%d+%d", b.GetBase(), b.GetCount()))
	}
	if m.GetCaughtUp() {
		got = append(got, fmt.Sprintf("=%d", m.GetEnd()))
	}
	return got
}

func (r *reader) want(want ...string) {
	r.t.Helper()
	got, err := r.all()
	if err != nil {
		r.t.Fatalf("got %v, then %v", got, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Fatalf("read (-want +got):\n%s", diff)
	}
}

// wantNext receives until what is wanted has come, and no further.
func (r *reader) wantNext(want ...string) {
	r.t.Helper()
	var got []string
	for len(got) < len(want) {
		m, err := r.call.Recv()
		if err != nil {
			r.t.Fatalf("got %v, then %v", got, api.FromError(err))
		}
		got = append(got, texts(m)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Fatalf("read (-want +got):\n%s", diff)
	}
}

// batches makes responses of batches of two records from one sequence to another.
func batches(from, to uint64) *novav1.ReadResponse {
	m := &novav1.ReadResponse{End: to}
	for ; from < to; from += 2 {
		m.Batches = append(m.Batches, &novav1.ReadBatch{Base: from, Count: 2})
	}
	return m
}

// serves makes a star answer reads like a leader with batches of two records up to end.
func (s *fakeStar) serves(end uint64) {
	s.next = end
	s.read = func(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
		if r.GetFrom() < end {
			if err := call.Send(batches(r.GetFrom()/2*2, end)); err != nil {
				return err
			}
		}
		if err := call.Send(&novav1.ReadResponse{End: end, CaughtUp: true}); err != nil || !r.GetFollow() {
			return err
		}
		<-call.Context().Done()
		return nil
	}
}

func TestAReadOfALedStreamIsTheLeaders(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.serves(6)
	a.lease(f.create("orders").GetId())
	f.start()
	f.read(&novav1.ReadRequest{Name: "orders", From: 2}).want("2+2", "4+2", "=6")
	f.read(&novav1.ReadRequest{Name: "orders", Last: true}).want("4+2", "=6")
	f.read(&novav1.ReadRequest{Name: "orders", Limit: 3}).want("0+2", "2+2")
}

func TestAReadGoesOnAtTheNextLeaderWithoutGapOrRepeat(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	die := make(chan struct{})
	a.read = func(_ *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
		if err := call.Send(batches(0, 4)); err != nil {
			return err
		}
		<-die
		return &api.UnavailableError{Reason: novav1.Unavailable_REASON_DEPARTING, Why: "stopping"}
	}
	id := f.create("orders").GetId()
	l := a.lease(id)
	b.read = func(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
		if err := call.Send(batches(r.GetFrom()-2, 8)); err != nil { // it begins below what was asked
			return err
		}
		return call.Send(&novav1.ReadResponse{End: 8, CaughtUp: true})
	}
	f.start()
	r := f.read(&novav1.ReadRequest{Name: "orders"})
	r.wantNext("0+2", "2+2")
	a.release(l)
	b.lease(id)
	close(die)
	r.want("4+2", "6+2", "=8")
	if got := b.asked(); len(got) != 1 || got[0].GetFrom() != 4 {
		t.Errorf("b was asked %v", got)
	}
}

func TestAReadSurvivesAKilledLeader(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	a.serves(4)
	b.serves(8)
	id := f.create("orders").GetId()
	l := a.lease(id)
	f.start()
	r := f.read(&novav1.ReadRequest{Name: "orders", Follow: true})
	r.wantNext("0+2", "2+2", "=4")
	a.server.Stop()
	a.release(l)
	b.lease(id)
	r.wantNext("4+2", "6+2", "=8")
}

func TestAReadThatTheStarCutsShortIsNoEnd(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.read = func(r *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
		if r.GetFrom() == 0 {
			return call.Send(batches(0, 2))
		}
		return call.Send(&novav1.ReadResponse{Batches: batches(2, 4).Batches, End: 4, CaughtUp: true})
	}
	a.lease(f.create("orders").GetId())
	f.start()
	f.read(&novav1.ReadRequest{Name: "orders"}).want("0+2", "2+2", "=4")
}

func TestARecordThatIsMissingEndsTheRead(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.read = func(_ *novav1.ReadRequest, call novav1.Streams_ReadServer) error { return call.Send(batches(2, 4)) }
	a.lease(f.create("orders").GetId())
	f.start()
	if got, err := f.read(&novav1.ReadRequest{Name: "orders"}).all(); err == nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAReadOfAVacantStreamEndsAtItsMark(t *testing.T) {
	f := newFleet(t, nil)
	f.create("fresh")
	f.setHead(clean(f.create("empty").GetId(), 0))
	f.start()
	f.read(&novav1.ReadRequest{Name: "fresh"}).want("=0")
	f.read(&novav1.ReadRequest{Name: "empty", Last: true}).want("=0")
	if _, err := f.read(&novav1.ReadRequest{Name: "nowhere"}).all(); !errors.Is(err, api.ErrUnknownStream) {
		t.Errorf("got %v", err)
	}
}

func TestTheEndIsNotToldBeforeADeadLeadersStreamIsSettled(t *testing.T) {
	f := newFleet(t, nil)
	a, b := f.star("a"), f.star("b")
	id := f.create("orders").GetId()
	dirty := clean(id, 2)
	dirty.Last.CleanRelease = false
	f.setHead(dirty)
	tries := 0
	settle := func(r *novav1.SettleRequest) error {
		if r.GetName() != "orders" {
			t.Errorf("asked to settle %q", r.GetName())
		}
		if tries++; tries < 3 {
			return &api.UnavailableError{Reason: novav1.Unavailable_REASON_UNDECIDED, Why: "a copy is away"}
		}
		settled := clean(id, 6)
		settled.Epoch, settled.Holder.Epoch, settled.Last.Epoch = 2, 2, 2
		_, err := f.meta.Rows().PutAny(context.Background(), coord.HeadKey(id), settled)
		return err
	}
	a.settle, b.settle = settle, settle
	a.serves(6)
	b.serves(6)
	f.start()
	f.read(&novav1.ReadRequest{Name: "orders", From: 4}).want("4+2", "=6")
	if tries < 3 {
		t.Errorf("settled after %d tries", tries)
	}
}

func TestAReadThatNobodyCanSettleIsUnavailable(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.ReadTimeout = 300 * time.Millisecond })
	dirty := clean(f.create("orders").GetId(), 0)
	dirty.Last.CleanRelease = false
	f.setHead(dirty)
	f.start()
	got, err := f.read(&novav1.ReadRequest{Name: "orders"}).all()
	var away *api.UnavailableError
	if !errors.As(err, &away) || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAReadThatASettlerHoldsUpIsUnavailable(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.ReadTimeout = 200 * time.Millisecond })
	a := f.star("a")
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	a.settle = func(*novav1.SettleRequest) error {
		<-over
		return nil
	}
	dirty := clean(f.create("orders").GetId(), 0)
	dirty.Last.CleanRelease = false
	f.setHead(dirty)
	f.start()
	got, err := f.read(&novav1.ReadRequest{Name: "orders"}).all()
	var away *api.UnavailableError
	if !errors.As(err, &away) || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAReadFromTheLastRecordWaitsForALeaderThatIsStillOpening(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.serves(4)
	a.opening.Store(2)
	a.lease(f.create("orders").GetId())
	f.start()
	f.read(&novav1.ReadRequest{Name: "orders", Last: true}).want("2+2", "=4")
}

func TestAFollowedReadOfAVacantStreamWaitsForALeader(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	a.serves(2)
	id := f.create("orders").GetId()
	f.start()
	r := f.read(&novav1.ReadRequest{Name: "orders", Follow: true})
	a.lease(id)
	r.wantNext("0+2", "=2")
}

func TestAReaderThatGoesEndsItsReadAtTheStar(t *testing.T) {
	f := newFleet(t, nil)
	a := f.star("a")
	gone := make(chan struct{})
	a.read = func(_ *novav1.ReadRequest, call novav1.Streams_ReadServer) error {
		if err := call.Send(batches(0, 2)); err != nil {
			return err
		}
		<-call.Context().Done()
		close(gone)
		return nil
	}
	a.lease(f.create("orders").GetId())
	f.start()
	r := f.read(&novav1.ReadRequest{Name: "orders", Follow: true})
	r.wantNext("0+2")
	r.cancel()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the star did not hear that the reader has gone")
	}
}
