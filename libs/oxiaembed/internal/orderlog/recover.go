package orderlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/oxia-db/oxia/proto"
)

// recoverSegments opens what is in the folder and brings it into the state the committer expects: segments
// without holes between them, the last one without anything behind its last record, nothing that the store
// makes needless, and a last entry that is not behind the store's.
func recoverSegments(o Options) (_ []*segment, err error) {
	bases, err := listSegments(o.Dir)
	if err != nil {
		return nil, err
	}
	if bases, err = dropApplied(o, bases); err != nil {
		return nil, err
	}
	var segments []*segment
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(segments))
		}
	}()
	for i, base := range bases {
		if i > 0 && segments[i-1].last() != base-1 {
			return segments, fmt.Errorf("%w: entries %d to %d are missing", ErrDamaged, segments[i-1].last()+1, base-1)
		}
		s, err := openSegment(o, base, i == len(bases)-1)
		if err != nil {
			return segments, err
		}
		segments = append(segments, s)
	}
	// A crash between a segment's creation and its first record leaves it empty.
	if n := len(segments); n > 0 && len(segments[n-1].positions) == 0 {
		empty := segments[n-1]
		segments = segments[:n-1]
		if err := empty.remove(); err != nil {
			return segments, err
		}
	}
	if n := len(segments); n > 0 && segments[0].base > o.Applied+1 {
		return segments, fmt.Errorf("%w: entries %d to %d are missing", ErrDamaged, o.Applied+1, segments[0].base-1)
	}
	segments, err = catchUp(o, segments)
	return segments, err
}

// dropApplied removes the leading segments whose every entry the store has, without reading them.
func dropApplied(o Options, bases []int64) ([]int64, error) {
	for len(bases) > 1 && bases[1] <= o.Applied+1 {
		if err := os.Remove(segmentPath(o.Dir, bases[0])); err != nil {
			return nil, err
		}
		bases = bases[1:]
	}
	return bases, nil
}

// openSegment reads a segment through and finds its records. A bad record is the end of the last segment,
// if it can be a tear, and damage everywhere else.
func openSegment(o Options, base int64, isLast bool) (_ *segment, err error) {
	path := segmentPath(o.Dir, base)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	s := &segment{base: base, path: path, file: f, end: int64(len(segmentMagic))}
	if !bytes.HasPrefix(content, []byte(segmentMagic)) {
		if !isLast || proof(content) >= base {
			return nil, fmt.Errorf("%w: %s does not begin as a segment", ErrDamaged, path)
		}
		return s, nil // torn at birth; it is removed as empty
	}
	for {
		r, ok := decode(content[s.end:])
		if !ok || r.offset != s.last()+1 {
			break
		}
		s.positions = append(s.positions, s.end)
		s.end += r.size()
	}
	rest := content[s.end:]
	torn := len(bytes.TrimRight(rest, "\x00"))
	bad := s.last() + 1
	switch {
	case torn == 0:
		return s, nil
	case !isLast:
		return nil, fmt.Errorf("%w: entry %d in %s at byte %d", ErrDamaged, bad, path, s.end)
	}
	if durable := proof(rest); durable >= bad && durable > o.Applied {
		return nil, fmt.Errorf("%w: entry %d in %s at byte %d cannot be read, and entries up to %d were durable",
			ErrDamaged, bad, path, s.end, durable)
	}
	o.Logger.Warn("cut off the write-ahead log's torn tail: none of it was acknowledged as durable",
		"segment", path, "byte", s.end, "bytes", torn, "last", s.last())
	return s, s.erase(s.end, o.SegmentBytes)
}

// proof searches the bytes behind a bad record for intact ones and returns the highest offset that they
// show to have been durable, -1 for none.
func proof(rest []byte) int64 {
	durable := int64(-1)
	for i := 0; i+headerBytes <= len(rest); {
		r, ok := decode(rest[i:])
		if !ok {
			i++
			continue
		}
		durable = max(durable, r.synced)
		i += int(r.size())
	}
	return durable
}

// catchUp moves a log that ends before the store's last entry up to it. Without Sync a crash of the machine
// can leave it so; everything the log had is in the store then, but the leader takes its next offset from
// the log's last entry and must not give out one twice. The entry put there is a no-op that is never applied.
func catchUp(o Options, segments []*segment) ([]*segment, error) {
	last := int64(-1)
	if n := len(segments); n > 0 {
		last = segments[n-1].last()
	}
	if last >= o.Applied {
		return segments, nil
	}
	if o.Sync {
		return segments, fmt.Errorf("%w: at entry %d, and the store holds %d: the log was lost or cut; "+
			"starting once without sync accepts what the store has", ErrBehind, last, o.Applied)
	}
	o.Logger.Warn("the write-ahead log ends before the store: moving it up", "log", last, "store", o.Applied)
	noop := &proto.LogEntryValue{Value: &proto.LogEntryValue_Requests{
		Requests: &proto.WriteRequests{Writes: []*proto.WriteRequest{{}}},
	}}
	value, err := noop.MarshalVT()
	if err != nil {
		return segments, err
	}
	payload, err := (&proto.LogEntry{Offset: o.Applied, Value: value}).MarshalVT()
	if err != nil {
		return segments, err
	}
	for len(segments) > 0 {
		s := segments[len(segments)-1]
		segments = segments[:len(segments)-1]
		if err := s.remove(); err != nil {
			return segments, err
		}
	}
	s, err := createSegment(o.Dir, o.Applied, o.SegmentBytes)
	if err != nil {
		return segments, err
	}
	buf := record{offset: o.Applied, synced: -1, payload: payload}.appendTo(nil)
	if _, err := s.file.WriteAt(buf, s.end); err != nil {
		return segments, errors.Join(err, s.file.Close())
	}
	s.positions, s.end = []int64{s.end}, s.end+int64(len(buf))
	return []*segment{s}, s.file.Sync()
}
