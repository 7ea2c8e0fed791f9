package epoch

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"nova.internal/libs/coord"
)

// memRows is a metastore of one process, with the faults that a real one has: a write may be lost, may
// land with its answer lost, and may land later than its caller gave up.
type memRows struct {
	values   map[string][]byte
	versions map[string]coord.Version
	clock    coord.Version
	late     []func()     // writes that have not landed yet
	fault    func() fault // of the next write; nil: none
}

type fault int

const (
	none       fault = iota
	lost             // not applied, answer unknown
	unanswered       // applied, answer unknown
	delayed          // applied later, if its version then still stands
)

func newMemRows() *memRows {
	return &memRows{values: map[string][]byte{}, versions: map[string]coord.Version{}}
}

func (m *memRows) Get(_ context.Context, k coord.Key, row proto.Message) (coord.Version, error) {
	value, ok := m.values[k.Path]
	if !ok {
		return 0, coord.ErrNotFound
	}
	return m.versions[k.Path], proto.Unmarshal(value, row)
}

func (m *memRows) Put(_ context.Context, k coord.Key, row proto.Message, at coord.Version) (coord.Version, error) {
	value, err := proto.Marshal(row)
	if err != nil {
		return 0, err
	}
	unknown := fmt.Errorf("put %s: %w", k.Path, coord.ErrUnknown)
	f := none
	if m.fault != nil {
		f = m.fault()
	}
	switch f {
	case lost:
		return 0, unknown
	case delayed:
		m.late = append(m.late, func() { _, _ = m.apply(k.Path, value, at) })
		return 0, unknown
	}
	version, err := m.apply(k.Path, value, at)
	if f == unanswered {
		return 0, unknown
	}
	return version, err
}

func (m *memRows) apply(path string, value []byte, at coord.Version) (coord.Version, error) {
	stands, ok := m.versions[path]
	if !ok {
		stands = coord.Absent
	}
	if stands != at {
		return 0, coord.ErrConflict
	}
	m.clock++
	m.values[path], m.versions[path] = value, m.clock
	return m.clock, nil
}

// land applies one late write.
func (m *memRows) land() {
	if len(m.late) > 0 {
		m.late[0]()
		m.late = m.late[1:]
	}
}
