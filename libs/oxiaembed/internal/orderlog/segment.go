package orderlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".log"
	segmentMagic  = "nova-orderlog-1\n"
)

// segment is one file of the log: the magic, then records with offsets from base upwards.
type segment struct {
	base      int64
	path      string
	file      *os.File
	positions []int64 // where the record of offset base+i begins
	end       int64   // where the next record goes
}

func segmentPath(dir string, base int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, segmentSuffix))
}

// last is the offset of the segment's last record; base-1 when it has none.
func (s *segment) last() int64 { return s.base + int64(len(s.positions)) - 1 }

// createSegment makes an empty segment with its space reserved, so that a full disk shows here, and its
// name durable, so that a crash cannot lose the file under synced records.
func createSegment(dir string, base, bytes int64) (_ *segment, err error) {
	path := segmentPath(dir, base)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(path))
		}
	}()
	if err := reserve(f, bytes); err != nil {
		return nil, fmt.Errorf("reserve %d bytes for %s: %w", bytes, path, err)
	}
	if _, err := f.WriteAt([]byte(segmentMagic), 0); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync %s: %w", path, err)
	}
	if err := syncDir(dir); err != nil {
		return nil, err
	}
	return &segment{base: base, path: path, file: f, end: int64(len(segmentMagic))}, nil
}

// read returns the record at offset, checked.
func (s *segment) read(offset int64) (record, error) {
	i := offset - s.base
	begin, end := s.positions[i], s.end
	if i+1 < int64(len(s.positions)) {
		end = s.positions[i+1]
	}
	buf := make([]byte, end-begin)
	if _, err := s.file.ReadAt(buf, begin); err != nil {
		return record{}, fmt.Errorf("read entry %d from %s: %w", offset, s.path, err)
	}
	r, ok := decode(buf)
	if !ok || r.offset != offset {
		return record{}, fmt.Errorf("%w: entry %d in %s at byte %d", ErrDamaged, offset, s.path, begin)
	}
	return r, nil
}

// cut drops every record above offset and erases its bytes, so that they cannot come back at the next
// opening.
func (s *segment) cut(offset, segmentBytes int64) error {
	keep := offset - s.base + 1
	if keep == int64(len(s.positions)) {
		return nil
	}
	end := s.positions[keep]
	if err := s.erase(end, segmentBytes); err != nil {
		return err
	}
	s.positions, s.end = s.positions[:keep], end
	return nil
}

// erase zeroes the file from byte begin on.
func (s *segment) erase(begin, segmentBytes int64) error {
	if err := s.file.Truncate(begin); err != nil {
		return fmt.Errorf("cut %s at byte %d: %w", s.path, begin, err)
	}
	if err := reserve(s.file, segmentBytes); err != nil {
		return fmt.Errorf("reserve %d bytes for %s: %w", segmentBytes, s.path, err)
	}
	return s.file.Sync()
}

func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.path))
}

func closeAll(segments []*segment) error {
	var err error
	for _, s := range segments {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

// listSegments returns the bases of the segments in dir, ascending. A missing folder is an empty log.
func listSegments(dir string) ([]int64, error) {
	files, err := os.ReadDir(dir) // sorted by name, and so by base
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, f := range files {
		digits, ok := strings.CutSuffix(f.Name(), segmentSuffix)
		if !ok {
			continue
		}
		base, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || base < 0 {
			return nil, fmt.Errorf("%s is no segment of this log", filepath.Join(dir, f.Name()))
		}
		bases = append(bases, base)
	}
	return bases, nil
}

// extend makes the file at least bytes long without reserving the space.
func extend(f *os.File, bytes int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= bytes {
		return err
	}
	return f.Truncate(bytes)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
