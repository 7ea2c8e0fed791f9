package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"

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
	client *client
	slow   *Rows
}

// Lingering is the same rows over a client that batches calls: slower for one, faster for many.
func (r *Rows) Lingering() *Rows { return r.slow }

// Get reads a row into row. It returns ErrNotFound where none stands.
func (r *Rows) Get(ctx context.Context, k Key, row proto.Message) (Version, error) {
	found, err := r.client.get(ctx, k.Path, k.Partition)
	if err != nil {
		return 0, err
	}
	if err := Decode(k.Path, found.value, row); err != nil {
		return 0, err
	}
	return Version(found.version.VersionId), nil
}

// Put writes row at the version named: Absent creates. It fills the row's nonce. ErrConflict means that
// another's row stands; ErrUnknown that this one may, now or within the next seconds.
func (r *Rows) Put(ctx context.Context, k Key, row proto.Message, at Version) (Version, error) {
	value, nonce, err := sign(row)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", k.Path, err)
	}
	version, err := r.client.put(ctx, k.Path, k.Partition, value, at)
	if !isConflict(err) {
		return Version(version.VersionId), err
	}
	// The client repeats a write whose answer was lost, and then meets its own row.
	stands, gerr := r.client.get(ctx, k.Path, k.Partition)
	switch {
	case isNotFound(gerr):
		return 0, err
	case gerr != nil:
		return 0, fmt.Errorf("write %s: whose row stands is not known: %w", k.Path, gerr)
	case signed(row, stands.value, nonce):
		return Version(stands.version.VersionId), nil
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
	err := r.client.delete(ctx, k.Path, k.Partition, at)
	if isNotFound(err) {
		return nil
	}
	return err
}

// Floor reads the newest row at or below k among the rows with k's parent: the segment that holds a
// sequence, for example. It returns that row's path.
func (r *Rows) Floor(ctx context.Context, k Key, row proto.Message) (string, Version, error) {
	found, err := r.client.get(ctx, k.Path, k.Partition, oxia.ComparisonFloor())
	if err != nil {
		return "", 0, err
	}
	if parent(found.key) != parent(k.Path) { // Oxia's floor knows no parents
		return "", 0, fmt.Errorf("read at or below %s: %w", k.Path, ErrNotFound)
	}
	if err := Decode(found.key, found.value, row); err != nil {
		return "", 0, err
	}
	return found.key, Version(found.version.VersionId), nil
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// Scan visits the rows from one path up to another, in order when partition is given and in none when it
// is empty. It ends at visit's first error, at ctx's end, or when Oxia falls silent for the request
// timeout; as a whole it may take as long as the rows do.
func (r *Rows) Scan(ctx context.Context, from, to, partition string, visit func(path string, version Version, value []byte) error) error {
	return r.client.scan(ctx, from, to, partition, func(found stored) error {
		return visit(found.key, Version(found.version.VersionId), found.value)
	})
}

// Chains visits every chain row of the fleet, in no order.
func (r *Rows) Chains(ctx context.Context, visit func(*novav1.ChainRow) error) error {
	// Both ends have the slash: Oxia sorts level by level, and a chain, STAR/INCARNATION/CLASS, lies deeper.
	return r.Scan(ctx, "/nova/chains/", "/nova/chains0/", "", func(path string, _ Version, value []byte) error {
		row := &novav1.ChainRow{}
		if err := Decode(path, value, row); err != nil {
			return err
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

// DeleteStream removes every row of a stream but its head, which stays as its gravestone. It may be
// repeated.
func (r *Rows) DeleteStream(ctx context.Context, id string) error {
	var errs []error
	for _, kind := range []string{"seg", "big", "epochs"} {
		from := "/nova/s/" + id + "/" + kind + "/"
		errs = append(errs, r.client.deleteRange(ctx, from, after(from), id))
	}
	return errors.Join(errs...)
}
