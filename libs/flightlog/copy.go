package flightlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"

	"nova.internal/libs/api/novav1"
)

var (
	// ErrExists: an object stands under the key, this one or another.
	ErrExists = errors.New("an object stands under this key")
	// ErrAbsent: no object stands under the key.
	ErrAbsent = errors.New("no object under this key")
	// ErrNotAdmitted: the store is not the one that this copy is known as, or is blank. It neither votes
	// nor takes puts.
	ErrNotAdmitted = errors.New("the copy is not the store it is known as")
)

// Object is one entry of a listing.
type Object struct {
	Key   string
	Bytes int64
}

// Copy is one object store. Keys are slash-separated plain paths; no part of one begins with a dot. All
// methods are safe for concurrent use and return soon after ctx ends, also when the store hangs; an error
// that is none of this package's may mean anything, also that the call was or will be carried out.
type Copy interface {
	// Name is the copy's URL without credentials.
	Name() string
	// Put creates the object from the parts, which it may read until it returns and, when ctx ended, for
	// longer: nobody may change them any more. The object is durable when Put returns nil. ErrExists means
	// that an object stands under the key and was left as it is; it need not be durable yet.
	Put(ctx context.Context, key string, parts ...[]byte) error
	// Overwrite puts an object in the place of the one that stands under the key, in one step: whoever looks
	// meanwhile finds the old one or the new one, whole, and never neither. ErrAbsent means that none stood,
	// and that none was put. The object is durable when Overwrite returns nil. It is repair's alone, and knows
	// nothing of what it replaces.
	Overwrite(ctx context.Context, key string, parts ...[]byte) error
	// Get reads the whole object, or ErrAbsent.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange reads up to n bytes from offset, fewer at the object's end; or ErrAbsent.
	GetRange(ctx context.Context, key string, offset, n int64) ([]byte, error)
	// List yields the objects below a folder whose keys come after a key ("" for all), in the order of
	// the keys' bytes. An error is yielded once and ends the listing. Objects that come or go meanwhile may
	// be in it or not.
	List(ctx context.Context, folder, after string) iter.Seq2[Object, error]
	// Confirm makes an object that was seen durable, so that it may count.
	Confirm(ctx context.Context, key string) error
	// Delete removes the object; one that is gone is no error.
	Delete(ctx context.Context, key string) error
}

// OpenCopy opens the store at a URL: file:///path, or mem://name, which lives as long as the process.
func OpenCopy(raw string) (Copy, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("copy %q: %w", raw, err)
	}
	switch {
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return openFileCopy(raw, u.Path)
	case u.Scheme == "mem" && u.Host != "":
		return openMemCopy(raw, u.Host+u.Path), nil
	}
	return nil, fmt.Errorf("copy %q: want file:///absolute/path or mem://name", raw)
}

// Copies are the stores of one class.
type Copies struct {
	Class novav1.Class
	List  []Copy
}

// Quorum is a majority of the copies.
func (c *Copies) Quorum() int { return len(c.List)/2 + 1 }

// Check says whether the set can have a quorum that any two of share a copy, and no tie.
func (c *Copies) Check() error {
	if c == nil || len(c.List)%2 == 0 {
		return errors.New("a class has an odd number of copies")
	}
	return nil
}

// checkKey keeps keys inside the store, and out of what the store keeps for itself.
func checkKey(key string) error {
	if len(key) > 1024 {
		return fmt.Errorf("an object key of %d bytes is too long", len(key))
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || len(part) > 255 || part[0] == '.' || strings.ContainsAny(part, "\\\x00") {
			return fmt.Errorf("object key %q is not a plain path", key)
		}
	}
	return nil
}
