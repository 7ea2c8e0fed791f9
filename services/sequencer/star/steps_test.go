package star

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/coord/coordtest"
)

// step lets a fault happen at exactly the n-th write of one star to the rows that leadership rests on:
// leases, heads, segments and chain rows, in the order in which gate, absorb and Finish make them.
type step struct {
	n     int64
	fault coordtest.Fault
	stays bool // from then on nothing of the star reaches the metastore: it has crashed there
	seen  atomic.Int64
}

func (s *step) at(ctx context.Context, apply func() error) error {
	switch n := s.seen.Add(1); {
	case n == s.n:
		return s.fault(ctx, apply)
	case n > s.n && s.stays:
		return coordtest.ErrLost
	}
	return apply()
}

func (s *step) wrap() func(string, coord.KV) coord.KV {
	faults := &coordtest.Faults{}
	for _, prefix := range []string{"/fleet/leases/", "/nova/s/", "/nova/chains/"} {
		faults.On("put", prefix, s.at)
	}
	return faults.Wrap
}

// TestEveryWriteOfALeadershipMayLoseItsAnswerOrBeTheLast runs one life of a stream (gate, appends, absorb,
// Finish, gate again) on a star, again and again. Each time another of its writes is lost, is carried out
// without an answer, or is the last thing that the star does. Whatever step that is, another star then
// reads every acknowledged record, once and in order, and goes on behind them.
func TestEveryWriteOfALeadershipMayLoseItsAnswerOrBeTheLast(t *testing.T) {
	const writes = 12
	for name, kind := range map[string]struct {
		fault coordtest.Fault
		stays bool
	}{
		"lost":                 {fault: coordtest.Drop},
		"unanswered":           {fault: coordtest.Lose},
		"crash before it":      {fault: coordtest.Drop, stays: true},
		"crash right after it": {fault: coordtest.Lose, stays: true},
	} {
		for n := range int64(writes) {
			t.Run(fmt.Sprintf("%s/write %d", name, n+1), func(t *testing.T) {
				t.Parallel()
				s := &step{n: n + 1, fault: kind.fault, stays: kind.stays}
				surviveStep(t, s)
				if s.seen.Load() < s.n {
					t.Errorf("the life made %d writes: this step was never reached", s.seen.Load())
				}
			})
		}
	}
}

func surviveStep(t *testing.T, s *step) {
	f := newFleet(t, func(c *Config) {
		c.IdleTimeout, c.AbsorbInterval, c.AbsorbAge = 30*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
		c.StopBudget = 4 * time.Second
	})
	row := f.create("orders", anyMode, express)
	plain := f.cfg
	f.cfg.Oxia.Wrap = s.wrap()
	one, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	started := f.tryStart("one")
	f.cfg = plain

	var acked []string
	if started {
		for life := range 3 {
			values, err := f.live(one, "one", fmt.Sprint(life))
			acked = append(acked, values...)
			if err != nil && s.stays {
				break // it is dead by now
			}
		}
		f.kill("one")
	}
	f.start("two")
	var read []string
	eventually(t, "the other star reads the stream", 20*time.Second, func() bool {
		var err error
		read, err = f.tryRead("two", "orders", 0)
		return err == nil
	})
	// What was acknowledged is a subsequence: a batch whose answer was lost may be stored as well.
	rest := read
	for _, value := range acked {
		for len(rest) > 0 && rest[0] != value {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			t.Fatalf("%q was acknowledged and is not read in its place\nacked %q\nread  %q", value, acked, read)
		}
		rest = rest[1:]
	}
	if once := strings.Join(read, " "); len(read) != len(unique(read)) {
		t.Fatalf("something is stored twice: %s", once)
	}
	p := f.open("two", "orders")
	if p.opened.GetNext() != uint64(len(read)) || p.opened.GetEpoch() != f.head(row).GetEpoch() {
		t.Fatalf("the next leader opened as %v behind %d records", p.opened, len(read))
	}
	p.append("after")
	if diff := cmp.Diff(append(read, "after"), f.read("two", "orders", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// live opens the stream, appends a few batches, lets some be absorbed, and closes; the idle timeout then
// releases the leadership. It returns what was acknowledged. An open that is refused is tried again.
func (f *testFleet) live(ctx context.Context, star, life string) (acked []string, err error) {
	var p *producer
	for p == nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		call, cancel := context.WithTimeout(ctx, 4*time.Second)
		p, err = f.tryOpenIn(call, star, &novav1.Open{Name: "orders", Producer: ulid.Make().String()})
		if err != nil {
			cancel()
			if errors.Is(err, context.DeadlineExceeded) || !sleep(ctx, 20*time.Millisecond) {
				return nil, err
			}
			continue
		}
		defer cancel()
	}
	for i := range 4 {
		value := fmt.Sprintf("%s.%d", life, i)
		p.number++
		if err := p.trySend(p.number, value); err != nil {
			return acked, err
		}
		m, err := p.recv()
		if err != nil || m.GetAck() == nil {
			return acked, errors.Join(err, errors.New("no acknowledgement"))
		}
		acked = append(acked, value)
		sleep(ctx, 15*time.Millisecond) // long enough for an absorb in between
	}
	_ = p.call.CloseSend()
	sleep(ctx, 80*time.Millisecond) // past the idle timeout
	return acked, nil
}

func unique(values []string) map[string]bool {
	set := map[string]bool{}
	for _, v := range values {
		set[v] = true
	}
	return set
}
