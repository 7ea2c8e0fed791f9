package flightlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// identityKey is the object that says which store a copy is.
const identityKey = "nova-copy.json"

// identityFormat is the newest format of the identity object that this software reads.
const identityFormat = 1

type identity struct {
	Format uint64 `json:"format"` // absent: 1
	Copy   string `json:"copy"`   // ULID
}

// maxIdentity bounds the identity object.
const maxIdentity = 4 << 10

// Identify reads which store c is; "" for a blank one.
func Identify(ctx context.Context, c Copy) (string, error) {
	b, err := c.GetRange(ctx, identityKey, 0, maxIdentity)
	if errors.Is(err, ErrAbsent) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("identify copy %s: %w", c.Name(), err)
	}
	id, err := decodeIdentity(b)
	if err != nil {
		return "", fmt.Errorf("identify copy %s: %w", c.Name(), err)
	}
	return id, nil
}

// encodeIdentity lays out the identity object of the store id.
func encodeIdentity(id string) ([]byte, error) {
	return json.Marshal(identity{Format: identityFormat, Copy: id})
}

// decodeIdentity reads which store an identity object names. ErrNewer is one that only newer software can
// read: such a store is neither blank nor another.
func decodeIdentity(b []byte) (string, error) {
	// The format decides before the rest is read, whose fields a newer one may have changed.
	var first struct {
		Format uint64 `json:"format"`
	}
	if err := json.Unmarshal(b, &first); err != nil {
		return "", fmt.Errorf("read %s: %w", identityKey, err)
	}
	if first.Format > identityFormat {
		return "", fmt.Errorf("%s of format %d: %w", identityKey, first.Format, ErrNewer)
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return "", fmt.Errorf("read %s: %w", identityKey, err)
	}
	if _, err := ulid.ParseStrict(id.Copy); err != nil {
		return "", fmt.Errorf("%s names copy %q: %w", identityKey, id.Copy, err)
	}
	return id.Copy, nil
}

// Format gives a blank store an identity and returns the one that stands, which is another's when two
// format at once. It is durable, whoever wrote it: a fleet that has learnt an identity refuses the store
// for ever after, should a power cut take it.
func Format(ctx context.Context, c Copy) (string, error) {
	return FormatAs(ctx, c, ulid.Make().String())
}

// FormatAs is Format with a given identity, for a store that was filled to take another's place.
func FormatAs(ctx context.Context, c Copy, id string) (string, error) {
	b, err := encodeIdentity(id)
	if err != nil {
		return "", err
	}
	err = c.Put(ctx, identityKey, b)
	if errors.Is(err, ErrExists) {
		err = c.Confirm(ctx, identityKey)
	}
	if err != nil {
		return "", fmt.Errorf("format copy %s: %w", c.Name(), err)
	}
	return Identify(ctx, c)
}
