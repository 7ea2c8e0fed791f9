package oxiaembed

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oxia-db/oxia/common/compare"
	"github.com/oxia-db/oxia/common/constant"
	"github.com/oxia-db/oxia/proto"
)

var (
	errClosing  = status.Error(codes.Unavailable, "oxiaembed: the server is closing")
	errNoShard  = status.Error(codes.InvalidArgument, "oxiaembed: the request names no shard")
	errLowSpace = status.Error(codes.ResourceExhausted, "oxiaembed: the disk is nearly full: no write is accepted")
	errInternal = status.Error(codes.InvalidArgument,
		"oxiaembed: keys under "+constant.InternalKeyPrefix+" are the server's own")
	errSequence = status.Error(codes.Unimplemented, "oxiaembed: sequence keys are not supported")
	errIndex    = status.Error(codes.Unimplemented, "oxiaembed: secondary indexes are not supported")
)

// refuseWrite keeps requests out of the log that Oxia checks only when it applies them. An entry that fails
// then fails again at every later start, and the shard never comes up: a sequence key without a partition
// key does that. Oxia itself accepts writes to its own rows.
func refuseWrite(r *proto.WriteRequest) error {
	for _, p := range r.Puts {
		switch {
		case internal(p.Key):
			return errInternal
		case len(p.SequenceKeyDelta) > 0:
			return errSequence
		case len(p.SecondaryIndexes) > 0:
			return errIndex
		}
	}
	for _, d := range r.Deletes {
		if internal(d.Key) {
			return errInternal
		}
	}
	for _, d := range r.DeleteRanges {
		if overInternal(d.StartInclusive, d.EndExclusive) {
			return errInternal
		}
	}
	return nil
}

// refuseIndex refuses reads through a secondary index: Oxia ends the process over one it cannot parse.
func refuseIndex(name *string) error {
	if name != nil {
		return errIndex
	}
	return nil
}

func internal(key string) bool { return strings.HasPrefix(key, constant.InternalKeyPrefix) }

// overInternal tells whether a range takes in any of the server's own rows. Oxia compares keys by their parts
// between slashes, so that everything under one first part lies together, whatever its depth.
func overInternal(start, end string) bool {
	const first, behind = constant.InternalKeyPrefix, "__oxia\x00/"
	return compare.CompareWithSlash([]byte(start), []byte(behind)) < 0 &&
		(end == "" || compare.CompareWithSlash([]byte(first), []byte(end)) < 0)
}
