package coord

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"nova.internal/libs/api/novav1"
)

// Version is the version of a row as a compare-and-set names it.
type Version int64

// Absent is the version of a row that does not stand; to put at it is to create.
const Absent Version = -1

// anyVersion puts without a condition.
const anyVersion Version = -2

// Rows reads and writes the durable rows. It is safe for concurrent use.
type Rows struct {
	kv      KV
	timeout time.Duration
	slow    *Rows
}

// Lingering is the same rows over a client that batches calls: slower for one, faster for many.
func (r *Rows) Lingering() *Rows { return r.slow }

// Get reads a row into row. It returns ErrNotFound where none stands.
func (r *Rows) Get(ctx context.Context, k Key, row proto.Message) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	_, value, version, err := r.kv.Get(ctx, k.Path, oxia.PartitionKey(k.Partition))
	if err != nil {
		return 0, verdict("read "+k.Path, err)
	}
	if err := proto.Unmarshal(value, row); err != nil {
		return 0, fmt.Errorf("decode %s: %w", k.Path, err)
	}
	return Version(version.VersionId), nil
}

// Put writes row at the version named: Absent creates. It fills the row's nonce. ErrConflict means that
// another's row stands; ErrUnknown that this one may.
func (r *Rows) Put(ctx context.Context, k Key, row proto.Message, at Version) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	nonce := sign(row)
	value, err := proto.Marshal(row)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", k.Path, err)
	}
	options := []oxia.PutOption{oxia.PartitionKey(k.Partition)}
	switch {
	case at == Absent:
		options = append(options, oxia.ExpectedRecordNotExists())
	case at != anyVersion:
		options = append(options, oxia.ExpectedVersionId(int64(at)))
	}
	_, version, err := r.kv.Put(ctx, k.Path, value, options...)
	err = verdict("write "+k.Path, err)
	if !errors.Is(err, ErrConflict) {
		return Version(version.VersionId), err
	}
	// The client may have repeated a write whose answer was lost, and met its own row.
	_, stands, version, gerr := r.kv.Get(ctx, k.Path, oxia.PartitionKey(k.Partition))
	switch {
	case errors.Is(gerr, oxia.ErrKeyNotFound):
		return 0, err
	case gerr != nil:
		return 0, fmt.Errorf("write %s: %w: whose row stands could not be read: %w", k.Path, ErrUnknown, gerr)
	case nonceIs(row, stands, nonce):
		return Version(version.VersionId), nil
	}
	return 0, err
}

// PutAny writes row whatever stands.
func (r *Rows) PutAny(ctx context.Context, k Key, row proto.Message) (Version, error) {
	return r.Put(ctx, k, row, anyVersion)
}

// Delete removes the row at that version. A row that is gone already is no error; one at another version
// is ErrConflict.
func (r *Rows) Delete(ctx context.Context, k Key, at Version) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := verdict("delete "+k.Path, r.kv.Delete(ctx, k.Path, oxia.PartitionKey(k.Partition), oxia.ExpectedVersionId(int64(at))))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Floor reads the newest row at or below k among the rows with k's parent: the segment that holds a
// sequence, for example. It returns that row's path.
func (r *Rows) Floor(ctx context.Context, k Key, row proto.Message) (string, Version, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	path, value, version, err := r.kv.Get(ctx, k.Path, oxia.PartitionKey(k.Partition), oxia.ComparisonFloor())
	if err != nil {
		return "", 0, verdict("read at or below "+k.Path, err)
	}
	if parent(path) != parent(k.Path) { // Oxia's floor knows no parents
		return "", 0, fmt.Errorf("read at or below %s: %w", k.Path, ErrNotFound)
	}
	if err := proto.Unmarshal(value, row); err != nil {
		return "", 0, fmt.Errorf("decode %s: %w", path, err)
	}
	return path, Version(version.VersionId), nil
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// Scan visits the rows from one path up to another, in order when partition is given and in none when it
// is empty. It ends at visit's first error. Its bound is ctx alone, since a scan may be long.
func (r *Rows) Scan(ctx context.Context, from, to, partition string, visit func(path string, version Version, value []byte) error) error {
	return scan(ctx, r.kv, from, to, partition, func(g oxia.GetResult) error {
		return visit(g.Key, Version(g.Version.VersionId), g.Value)
	})
}

func scan(ctx context.Context, kv KV, from, to, partition string, visit func(oxia.GetResult) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var options []oxia.RangeScanOption
	if partition != "" {
		options = append(options, oxia.PartitionKey(partition))
	}
	results := kv.RangeScan(ctx, from, to, options...)
	var failed error
	for {
		select {
		case g, ok := <-results:
			switch {
			case !ok:
				if failed == nil && ctx.Err() != nil {
					failed = ctx.Err()
				}
				return failed
			case failed != nil: // the rest is drained, so that the client's sender ends
			case g.Err != nil:
				failed = verdict("scan "+from, g.Err)
				cancel()
			default:
				if err := visit(g); err != nil {
					failed = err
					cancel()
				}
			}
		case <-ctx.Done():
			go func() { // the sender ends once it sees the context
				for range results {
				}
			}()
			if failed == nil {
				failed = fmt.Errorf("scan %s: %w", from, ctx.Err())
			}
			return failed
		}
	}
}

// Chains visits every chain row of the fleet, in no order.
func (r *Rows) Chains(ctx context.Context, visit func(*novav1.ChainRow) error) error {
	// STAR/INCARNATION/CLASS below the prefix: two slashes more, and Oxia sorts level by level.
	return r.Scan(ctx, "/nova/chains///", "/nova/chains/\xff/\xff/\xff", "", func(path string, _ Version, value []byte) error {
		row := &novav1.ChainRow{}
		if err := proto.Unmarshal(value, row); err != nil {
			return fmt.Errorf("decode %s: %w", path, err)
		}
		return visit(row)
	})
}

// Segments counts the segment rows of a stream below sequence end.
func (r *Rows) Segments(ctx context.Context, id string, end uint64) (uint64, error) {
	n := uint64(0)
	err := r.Scan(ctx, SegmentKey(id, 0).Path, SegmentKey(id, end).Path, id, func(string, Version, []byte) error {
		n++
		return nil
	})
	return n, err
}

// DeleteStream removes every row of a stream but its head, which stays as its gravestone.
func (r *Rows) DeleteStream(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for _, kind := range []string{"seg", "big", "epochs"} {
		from := "/nova/s/" + id + "/" + kind + "/"
		if err := r.kv.DeleteRange(ctx, from, after(from), oxia.PartitionKey(id)); err != nil {
			return verdict("delete the rows of "+id, err)
		}
	}
	return nil
}

// sign gives row a new nonce, which tells its writer's write from everybody else's.
func sign(row proto.Message) []byte {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	m := row.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("nonce"), protoreflect.ValueOfBytes(nonce))
	return nonce
}

// nonceIs says whether value is a row of row's type that carries the nonce.
func nonceIs(row proto.Message, value, nonce []byte) bool {
	other := row.ProtoReflect().New()
	if err := proto.Unmarshal(value, other.Interface()); err != nil {
		return false
	}
	return bytes.Equal(other.Get(other.Descriptor().Fields().ByName("nonce")).Bytes(), nonce)
}
