package coord

import (
	"bytes"
	"crypto/rand"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxRowBytes bounds a row. nova's rows are smaller by far; a larger one would break the stream that it
// shares with the writes of others, with an outcome unknown to all of them.
const maxRowBytes = 1 << 20

// sign gives row a new nonce, which tells its write from everybody else's, and encodes it.
func sign(row proto.Message) (value, nonce []byte, err error) {
	m := row.ProtoReflect()
	field := m.Descriptor().Fields().ByName("nonce")
	if field == nil {
		return nil, nil, fmt.Errorf("%s has no nonce and is no row", m.Descriptor().FullName())
	}
	if err := checkFormat(m); err != nil {
		return nil, nil, err
	}
	nonce = make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	m.Set(field, protoreflect.ValueOfBytes(nonce))
	if value, err = proto.Marshal(row); err != nil {
		return nil, nil, err
	}
	if len(value) > maxRowBytes {
		return nil, nil, fmt.Errorf("row of %d bytes: at most %d are possible", len(value), maxRowBytes)
	}
	return value, nonce, nil
}

// signed says whether value is a row of row's type that carries the nonce.
func signed(row proto.Message, value, nonce []byte) bool {
	other := row.ProtoReflect().New()
	if err := proto.Unmarshal(value, other.Interface()); err != nil {
		return false
	}
	return bytes.Equal(other.Get(other.Descriptor().Fields().ByName("nonce")).Bytes(), nonce)
}
