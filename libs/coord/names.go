package coord

import (
	"context"
	"errors"
	"strings"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// Names are the rows that know the streams' names. A name that is deleted and created again stands for
// another stream, with another id.
type Names struct{ rows *Rows }

// Create makes the name, or returns the row that stands already. It may be repeated with the same row
// after ErrUnknown: the id says whose row it is. ErrNotFound: another's row stood, and has gone since.
func (n Names) Create(ctx context.Context, row *novav1.NameRow) (stands *novav1.NameRow, created bool, err error) {
	_, err = n.rows.Put(ctx, NameKey(row.GetName()), row, Absent)
	if err == nil {
		return row, true, nil
	}
	if !errors.Is(err, ErrConflict) {
		return nil, false, err
	}
	stands, err = n.Get(ctx, row.GetName())
	return stands, err == nil && stands.GetId() == row.GetId(), err
}

// Get reads a name's row. ErrNotFound where there is none.
func (n Names) Get(ctx context.Context, name string) (*novav1.NameRow, error) {
	row := &novav1.NameRow{}
	if _, err := n.rows.Get(ctx, NameKey(name), row); err != nil {
		return nil, err
	}
	return row, nil
}

// Delete removes the name where it stands for the stream id; where it stands for another, or for none,
// there is nothing to do.
func (n Names) Delete(ctx context.Context, name, id string) error {
	for {
		row := &novav1.NameRow{}
		version, err := n.rows.Get(ctx, NameKey(name), row)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.GetId() != id:
			return nil
		}
		if err := n.rows.Delete(ctx, NameKey(name), version); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// List visits every name that begins with prefix, in no order.
func (n Names) List(ctx context.Context, prefix string, visit func(*novav1.NameRow) error) error {
	// Whole groups of three bytes are encoded alike at the beginning of every name that begins with them.
	from := namesPrefix + api.EncodeName(prefix[:len(prefix)/3*3])
	return n.rows.Scan(ctx, from, after(from), "", func(path string, _ Version, value []byte) error {
		row := &novav1.NameRow{}
		if err := Decode(path, value, row); err != nil {
			return err
		}
		if !strings.HasPrefix(row.GetName(), prefix) {
			return nil
		}
		return visit(row)
	})
}
