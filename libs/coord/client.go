package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oxia-db/oxia/common/hash"
	"github.com/oxia-db/oxia/oxia"
)

const (
	// lanes and laneWidth bound what is under way in one client. Oxia's client takes calls without a bound
	// and sends what has waited however long ago its caller left, so that an outage would end with a queue
	// of stale writes. A lane is a contiguous part of the hash space, as a shard is: a shard that is away
	// fills its own lanes and no other's. So does each kind of call: ephemeral puts may all wait for a
	// session, and the reads that would notice its loss must not wait behind them.
	lanes     = 64
	laneWidth = 64

	// drainGrace is how long closing waits for calls under way, and closeLimit how long for all.
	drainGrace = 250 * time.Millisecond
	closeLimit = 2 * time.Second
)

// kind is what a call waits for in Oxia's client.
type kind int

const (
	reading kind = iota
	writing
	writingEphemeral // first for the session
	kinds
)

// client gives each call of one Oxia client a deadline that holds. Oxia's own does not:
//
//   - an ephemeral put waits without an end while its session cannot be started, whatever the context says;
//   - a read hands its answer over unbuffered, and when its caller has given up, that shard's reads stand
//     still for ever;
//   - a call behind others of its shard waits for each of them in turn.
//
// So every call runs aside, under a context that only the closing of the client ends, and its answer is
// always taken; the caller leaves at its own deadline.
type client struct {
	kv      KV
	timeout time.Duration // of one call, and between two rows of a scan

	life context.Context // ends when the client is closed
	end  context.CancelFunc
	lane [kinds][lanes]chan struct{}

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

func newClient(kv KV, timeout time.Duration) *client {
	c := &client{kv: kv, timeout: timeout}
	c.life, c.end = context.WithCancel(context.Background())
	for kind := range c.lane {
		for i := range c.lane[kind] {
			c.lane[kind][i] = make(chan struct{}, laneWidth)
		}
	}
	return c
}

// aside runs call on a goroutine of its own and waits for its answer, c.timeout, or ctx. An answer that
// comes after its caller left goes to late, where there is one and the call succeeded.
func aside[T any](ctx context.Context, c *client, k kind, partition string, call func(context.Context) (T, error), late func(T)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	lane := c.lane[k][hash.Xxh332(partition)>>26] // 26: 64 lanes of a 32-bit hash
	if ctx.Err() != nil {
		return none, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%w: not sent, since oxia has not answered %d earlier calls: %w", ErrUnknown, laneWidth, ctx.Err())
	}
	if !c.begin() {
		<-lane
		return none, fmt.Errorf("%w: %w", ErrUnknown, errClosed)
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer) // unbuffered: an answer is either taken or late
	go func() {
		defer c.calls.Done()
		value, err := call(c.life)
		<-lane
		select {
		case done <- answer{value, err}:
		case <-ctx.Done():
			if err == nil && late != nil {
				late(value)
			}
		}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

func (c *client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.calls.Add(1)
	return true
}

// stored is a row as Oxia holds it.
type stored struct {
	key     string
	value   []byte
	version oxia.Version
}

func (c *client) get(ctx context.Context, key, partition string, options ...oxia.GetOption) (stored, error) {
	r, err := aside(ctx, c, reading, partition, func(ctx context.Context) (stored, error) {
		key, value, version, err := c.kv.Get(ctx, key, append(options, oxia.PartitionKey(partition))...)
		return stored{key, value, version}, err
	}, nil)
	return r, verdict("read "+key, err)
}

func (c *client) put(ctx context.Context, key, partition string, value []byte, at Version) (oxia.Version, error) {
	v, err := aside(ctx, c, writing, partition, func(ctx context.Context) (oxia.Version, error) {
		_, version, err := c.kv.Put(ctx, key, value, append(condition(at), oxia.PartitionKey(partition))...)
		return version, err
	}, nil)
	return v, verdict("write "+key, err)
}

// putEphemeral writes an ephemeral row. It is the only function that does: a rewrite without the flag
// would leave the row standing for ever. A row that it created for a caller who has left is removed
// again: nobody knows of it, and it would stand as long as the session.
func (c *client) putEphemeral(ctx context.Context, key string, value []byte, at Version) (oxia.Version, error) {
	var undo func(oxia.Version)
	if at == Absent {
		undo = func(v oxia.Version) {
			_ = c.kv.Delete(c.life, key, oxia.PartitionKey(fleetPartition), oxia.ExpectedVersionId(v.VersionId))
		}
	}
	v, err := aside(ctx, c, writingEphemeral, fleetPartition, func(ctx context.Context) (oxia.Version, error) {
		options := append(condition(at), oxia.Ephemeral(), oxia.PartitionKey(fleetPartition))
		_, version, err := c.kv.Put(ctx, key, value, options...)
		return version, err
	}, undo)
	return v, verdict("write "+key, err)
}

// delete removes the row at that version; one that is gone is ErrNotFound, one that changed ErrConflict.
// Oxia calls both a conflict, also when the client repeats a deletion whose answer was lost.
func (c *client) delete(ctx context.Context, key, partition string, at Version) error {
	_, err := aside(ctx, c, writing, partition, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.kv.Delete(ctx, key, oxia.PartitionKey(partition), oxia.ExpectedVersionId(int64(at)))
	}, nil)
	if err = verdict("delete "+key, err); isConflict(err) {
		if _, gerr := c.get(ctx, key, partition); gerr != nil {
			return fmt.Errorf("delete %s: %w", key, gerr)
		}
	}
	return err
}

func (c *client) deleteRange(ctx context.Context, from, to, partition string) error {
	_, err := aside(ctx, c, writing, partition, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.kv.DeleteRange(ctx, from, to, oxia.PartitionKey(partition))
	}, nil)
	return verdict("delete from "+from, err)
}

// scan visits the rows from one key up to another: in order within one partition, in none across all of
// them (partition ""). It ends at visit's first error, at ctx's end, or when no row comes for c.timeout.
func (c *client) scan(ctx context.Context, from, to, partition string, visit func(stored) error) error {
	doing := "scan " + from
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w: %w", doing, ErrUnknown, ctx.Err())
	}
	if !c.begin() {
		return fmt.Errorf("%s: %w: %w", doing, ErrUnknown, errClosed)
	}
	life, stop := context.WithCancel(c.life)
	var options []oxia.RangeScanOption
	if partition != "" {
		options = append(options, oxia.PartitionKey(partition))
	}
	results := c.kv.RangeScan(life, from, to, options...)
	// abandon lets the client's own goroutines end. They hand rows over unbuffered and look at no context;
	// across shards they are merged by one that leaves at the first error, so a scan across shards is read
	// to its end rather than broken off.
	abandon := func() {
		if partition != "" {
			stop()
		}
		go func() {
			defer c.calls.Done()
			defer stop()
			for g := range results {
				if g.Err != nil {
					return // the last that comes; the channel is not always closed then
				}
			}
		}()
	}
	idle := time.NewTimer(c.timeout)
	defer idle.Stop()
	for {
		idle.Reset(c.timeout)
		select {
		case g, ok := <-results:
			if !ok || g.Err != nil {
				stop()
				c.calls.Done()
				return verdict(doing, g.Err)
			}
			if err := visit(stored{g.Key, g.Value, g.Version}); err != nil {
				abandon()
				return err
			}
		case <-idle.C:
			abandon()
			return fmt.Errorf("%s: %w: no row within %v", doing, ErrUnknown, c.timeout)
		case <-ctx.Done():
			abandon()
			return fmt.Errorf("%s: %w: %w", doing, ErrUnknown, ctx.Err())
		}
	}
}

// close ends the client and, with its session, its ephemeral rows. What hangs at a server that is away is
// left behind after closeLimit; the session then ends by its timeout.
func (c *client) close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()

	calls := make(chan struct{})
	go func() { c.calls.Wait(); close(calls) }()
	// Calls that reach Oxia's client while it closes may start goroutines there that never end.
	select {
	case <-calls:
	case <-time.After(drainGrace):
	}
	closed := make(chan error, 1)
	go func() { closed <- c.kv.Close() }()
	var err error
	select {
	case err = <-closed:
	case <-limit.C:
		c.end()
		return errors.New("an oxia client did not close in time; its rows end with its session")
	}
	c.end()
	select {
	case <-calls:
		return err
	case <-limit.C:
		return errors.Join(err, errors.New("calls of an oxia client did not end in time"))
	}
}
