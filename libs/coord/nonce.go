package coord

import (
	"bytes"
	"crypto/rand"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// sign gives row a new nonce, which tells its write from everybody else's, and encodes it.
func sign(row proto.Message) (value, nonce []byte, err error) {
	m := row.ProtoReflect()
	field := m.Descriptor().Fields().ByName("nonce")
	if field == nil {
		return nil, nil, fmt.Errorf("%s has no nonce and is no row", m.Descriptor().FullName())
	}
	nonce = make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	m.Set(field, protoreflect.ValueOfBytes(nonce))
	value, err = proto.Marshal(row)
	return value, nonce, err
}

// signed says whether value is a row of row's type that carries the nonce.
func signed(row proto.Message, value, nonce []byte) bool {
	other := row.ProtoReflect().New()
	if err := proto.Unmarshal(value, other.Interface()); err != nil {
		return false
	}
	return bytes.Equal(other.Get(other.Descriptor().Fields().ByName("nonce")).Bytes(), nonce)
}
