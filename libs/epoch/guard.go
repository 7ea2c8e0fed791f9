package epoch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
)

// rows is what the guard needs of the metastore.
type rows interface {
	Get(ctx context.Context, k coord.Key, row proto.Message) (coord.Version, error)
	Put(ctx context.Context, k coord.Key, row proto.Message, at coord.Version) (coord.Version, error)
}

// Guard is the one queue through which a star reads and writes one stream's head. Its calls exclude one
// another, so a star's own absorb, Finish and gate never race for the head; other stars do, and lose or
// win by the compare-and-set.
//
// After a write whose outcome is unknown, the guard reads again before it writes. The late write and the
// next one are conditional on the same version, so at most one of them stands.
type Guard struct {
	rows rows
	id   string

	mu      sync.Mutex
	head    *novav1.HeadRow // nil: must be read first
	version coord.Version
}

// NewGuard returns the guard of stream id. It reads nothing yet.
func NewGuard(rows rows, id string) *Guard { return &Guard{rows: rows, id: id} }

// Read returns the head as it stands in the metastore now, or nil when the stream never had one. The
// answer is a copy.
func (g *Guard) Read(ctx context.Context) (*novav1.HeadRow, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(ctx); err != nil {
		return nil, err
	}
	if g.version == coord.Absent {
		return nil, nil
	}
	return proto.CloneOf(g.head), nil
}

// Update replaces the head by what change makes of it, by compare-and-set, trying again when another
// writer came between. change gets a copy of the newest head (an empty one when the stream has none) and
// returns the next, nil when there is nothing to write, or an error that ends the update. It returns the
// head that stands.
func (g *Guard) Update(ctx context.Context, change func(*novav1.HeadRow) (*novav1.HeadRow, error)) (*novav1.HeadRow, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.update(ctx, change)
}

func (g *Guard) update(ctx context.Context, change func(*novav1.HeadRow) (*novav1.HeadRow, error)) (*novav1.HeadRow, error) {
	for {
		if g.head == nil {
			if err := g.load(ctx); err != nil {
				return nil, err
			}
		}
		next, err := change(proto.CloneOf(g.head))
		if err != nil {
			return nil, err
		}
		if next == nil {
			return proto.CloneOf(g.head), nil
		}
		switch version, err := g.rows.Put(ctx, coord.HeadKey(g.id), next, g.version); {
		case err == nil:
			g.head, g.version = next, version
			return proto.CloneOf(next), nil
		case errors.Is(err, coord.ErrConflict):
			g.head = nil
		default:
			g.head = nil
			return nil, fmt.Errorf("write head of %s at epoch %d: %w", g.id, next.GetEpoch(), err)
		}
	}
}

func (g *Guard) load(ctx context.Context) error {
	g.head = nil
	head := &novav1.HeadRow{}
	version, err := g.rows.Get(ctx, coord.HeadKey(g.id), head)
	if errors.Is(err, coord.ErrNotFound) {
		head, version, err = &novav1.HeadRow{Id: g.id}, coord.Absent, nil
	}
	if err != nil {
		return fmt.Errorf("read head of %s: %w", g.id, err)
	}
	g.head, g.version = head, version
	return nil
}
