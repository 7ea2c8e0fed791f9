package gateway

import lru "github.com/hashicorp/golang-lru/v2"

// target is a star to ask.
type target struct{ star, address string }

func (t target) known() bool { return t.address != "" }

// memory is who was seen to lead a stream, by name; bounded, the least recently used goes first. It is a
// hint and is safe for concurrent use.
type memory struct{ holders *lru.Cache[string, target] }

func newMemory(bound int) (*memory, error) {
	holders, err := lru.New[string, target](bound)
	return &memory{holders}, err
}

// leads notes that t leads the stream, or will in a moment.
func (m *memory) leads(stream string, t target) {
	if t.known() {
		m.holders.Add(stream, t)
	}
}

// holder is who was last seen to lead the stream.
func (m *memory) holder(stream string) target {
	t, _ := m.holders.Get(stream)
	return t
}

// failed forgets the stream's holder if it is the star at that address, and leaves a newer one alone.
func (m *memory) failed(stream string, t target) {
	if stands, ok := m.holders.Peek(stream); ok && stands.address == t.address {
		m.holders.Remove(stream)
	}
}
