package coord

import (
	"fmt"
	"strings"

	"nova.internal/libs/api"
	"nova.internal/libs/api/novav1"
)

// Key names one durable row: its path, and the partition whose shard holds it.
type Key struct{ Path, Partition string }

// NameKey is the row that knows a stream's name. Each name is a partition of its own.
func NameKey(name string) Key {
	path := namesPrefix + api.EncodeName(name)
	return Key{path, path}
}

// HeadKey is the epoch guard's row. A stream's rows lie in one partition, its id.
func HeadKey(id string) Key { return Key{"/nova/s/" + id + "/head", id} }

// SegmentKey is the segment that begins at sequence base.
func SegmentKey(id string, base uint64) Key {
	return Key{fmt.Sprintf("/nova/s/%s/seg/%020d", id, base), id}
}

// EpochKey is the record of one epoch of a stream.
func EpochKey(id string, epoch uint64) Key {
	return Key{fmt.Sprintf("/nova/s/%s/epochs/%020d", id, epoch), id}
}

// ChainKey is the row of a chain, STAR/INCARNATION/CLASS. A star's chains lie in one partition.
func ChainKey(chain string) Key {
	star, _, _ := strings.Cut(chain, "/")
	return Key{"/nova/chains/" + chain, star}
}

// TombstoneKey is the row that forbids an identity for ever.
func TombstoneKey(star string) Key { return Key{"/nova/tombstones/" + star, star} }

// CopyKey is the row that says which object store is copy index of a class.
func CopyKey(class novav1.Class, index int) Key {
	return Key{fmt.Sprintf("/nova/copies/%d/%03d", class, index), "copies"}
}

const (
	namesPrefix = "/nova/names/"

	starsPrefix  = "/fleet/stars/"
	statsPrefix  = "/fleet/stats/"
	leasesPrefix = "/fleet/leases/"
	rolesPrefix  = "/fleet/roles/"
)

// after is the end of the range of the keys that begin with prefix, at prefix's level. Oxia sorts level by
// level, so the range holds one level only; and '~' sorts after every character of nova's keys.
func after(prefix string) string { return prefix + "~" }
