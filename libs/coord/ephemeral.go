package coord

import (
	"context"
	"fmt"

	"github.com/oxia-db/oxia/oxia"
	"google.golang.org/protobuf/proto"
)

// fleetPartition is the one partition key of every ephemeral row: an Oxia client has a session in each
// shard, and a star's rows must live and die with one.
const fleetPartition = "fleet"

// getRow reads one ephemeral row.
func (c *client) getRow(ctx context.Context, path string, into proto.Message) (oxia.Version, error) {
	found, err := c.get(ctx, path, fleetPartition)
	if err != nil {
		return found.version, err
	}
	return found.version, Decode(path, found.value, into)
}

// putRow writes one ephemeral row with a new nonce, which it returns whatever the outcome. A conflict with
// its own write is success.
func (c *client) putRow(ctx context.Context, path string, content proto.Message, at Version) (oxia.Version, []byte, error) {
	value, nonce, err := sign(content)
	if err != nil {
		return oxia.Version{}, nil, fmt.Errorf("encode %s: %w", path, err)
	}
	version, err := c.putEphemeral(ctx, path, value, at)
	if !isConflict(err) {
		return version, nonce, err
	}
	stands, gerr := c.get(ctx, path, fleetPartition)
	switch {
	case isNotFound(gerr):
		return oxia.Version{}, nonce, err
	case gerr != nil:
		return oxia.Version{}, nonce, fmt.Errorf("write %s: whose row stands is not known: %w", path, gerr)
	case signed(content, stands.value, nonce):
		return stands.version, nonce, nil
	}
	return oxia.Version{}, nonce, err
}

// deleteRow removes one ephemeral row at its version; one that changed or is gone is left as it is.
func (c *client) deleteRow(ctx context.Context, path string, at int64) error {
	err := c.delete(ctx, path, fleetPartition, Version(at))
	if isConflict(err) || isNotFound(err) {
		return nil
	}
	return err
}

// deleteOwn removes the row where it stands under the session, at whatever version.
func (c *client) deleteOwn(ctx context.Context, path string, session int64) error {
	for {
		found, err := c.get(ctx, path, fleetPartition)
		switch {
		case isNotFound(err):
			return nil
		case err != nil:
			return err
		case found.version.SessionId != session:
			return nil
		}
		if err := c.delete(ctx, path, fleetPartition, Version(found.version.VersionId)); !isConflict(err) {
			if isNotFound(err) {
				return nil
			}
			return err
		}
	}
}
