package star

import (
	"context"
	"fmt"
	"sync"

	"github.com/oklog/ulid/v2"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
)

// incarnation is one life of a star: a ULID in its liveness row, one chain a class under that ULID, and
// the streams that are led on those chains. A star whose chain was sealed starts another; nothing of the
// old one may go on.
type incarnation struct {
	star   *Star
	id     string
	chains map[novav1.Class]*chain
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	streams map[string]*stream
	over    bool
}

// newIncarnation names a new life. It owns nothing yet.
func newIncarnation(s *Star) *incarnation {
	return &incarnation{star: s, id: ulid.Make().String(), chains: map[novav1.Class]*chain{}, streams: map[string]*stream{}}
}

// found makes the chains. Their rows come before any gate: a chain whose row is missing is taken to be
// empty by whoever fences it.
func (inc *incarnation) found(ctx context.Context) error {
	for class := range inc.star.copies {
		c := newChain(inc, class)
		row := &novav1.ChainRow{Chain: c.name, Class: class, State: novav1.ChainState_CHAIN_STATE_OPEN}
		var err error
		if c.version, err = inc.star.fleet.Rows().Put(ctx, coord.ChainKey(c.name), row, coord.Absent); err != nil {
			return fmt.Errorf("write the row of chain %s: %w", c.name, err)
		}
		inc.chains[class] = c
	}
	return nil
}

// begin starts the incarnation's own work.
func (inc *incarnation) begin() {
	ctx, cancel := context.WithCancel(inc.star.ctx)
	inc.cancel = cancel
	inc.work.Go(func() { inc.absorbLoop(ctx) })
}

// end abandons the incarnation: its leaderships end without a mark, and what is undecided is answered
// with "unknown". Its chains are fenced and settled like a dead star's.
func (inc *incarnation) end(why error) {
	inc.mu.Lock()
	if inc.over {
		inc.mu.Unlock()
		return
	}
	inc.over = true
	inc.mu.Unlock()
	for _, c := range inc.chains {
		c.writer.Abort()
	}
	for _, st := range inc.all() {
		st.depose(why)
	}
	inc.cancel()
}

// stream returns what is known of the named stream, making it known when it is not.
func (inc *incarnation) stream(name *novav1.NameRow) *stream {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	st := inc.streams[name.GetId()]
	if st == nil {
		st = &stream{
			inc: inc, id: name.GetId(), name: name.GetName(), mode: name.GetMode(), class: name.GetClass(),
			chain: inc.chains[name.GetClass()], guard: epoch.NewGuard(inc.star.fleet.Rows(), name.GetId()),
		}
		inc.streams[name.GetId()] = st
	}
	return st
}

// find returns what is known of the stream, or nil.
func (inc *incarnation) find(id string) *stream {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	return inc.streams[id]
}

func (inc *incarnation) drop(st *stream) {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	if inc.streams[st.id] == st {
		delete(inc.streams, st.id)
	}
}

func (inc *incarnation) all() []*stream {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	all := make([]*stream, 0, len(inc.streams))
	for _, st := range inc.streams {
		all = append(all, st)
	}
	return all
}

func (inc *incarnation) chainNamed(name string) *chain {
	for _, c := range inc.chains {
		if c.name == name {
			return c
		}
	}
	return nil
}

// committed hands a durable batch to the leadership that wrote it.
func (inc *incarnation) committed(id string, e uint64, t tailBatch) {
	if st := inc.find(id); st != nil {
		st.commit(t, e)
	}
}

// close ends an incarnation that stops in good order: its chains, once its last Finish has ended.
func (inc *incarnation) close(ctx context.Context, certified bool) {
	inc.cancel()
	inc.work.Wait()
	for _, c := range inc.chains {
		c.close(ctx, certified)
	}
}
