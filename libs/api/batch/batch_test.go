package batch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nova.internal/libs/api/batch"
)

func records() *rapid.Generator[[]batch.Record] {
	return rapid.Custom(func(t *rapid.T) []batch.Record {
		var rs []batch.Record
		for range rapid.IntRange(1, 8).Draw(t, "records") {
			r := batch.Record{Value: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value")}
			if rapid.Bool().Draw(t, "keyed") {
				r.Key = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "key")
			}
			if ms := rapid.Int64Range(0, 1<<42).Draw(t, "ms"); ms != 0 {
				r.Time = time.UnixMilli(ms)
			}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				r.Headers = append(r.Headers, batch.Header{Name: rapid.StringN(0, 5, 20).Draw(t, "name"), Value: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "header")})
			}
			rs = append(rs, r)
		}
		return rs
	})
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := records().Draw(t, "batch")
		var b []byte
		size := 1
		for _, r := range want {
			b = batch.Append(b, r)
			size += batch.EncodedBytes(r)
		}
		if len(b) != size {
			t.Fatalf("encoded %d bytes, EncodedBytes said %d", len(b), size)
		}
		if err := batch.Check(b, uint32(len(want)), 1<<20); err != nil {
			t.Fatal(err)
		}
		var got []batch.Record
		for r, err := range batch.Records(b) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("records (-want +got):\n%s", diff)
		}
	})
}

func TestCheckRefuses(t *testing.T) {
	good := batch.Append(batch.Append(nil, batch.Record{Value: []byte("one")}), batch.Record{Key: []byte("k"), Value: []byte("two")})
	tests := map[string]struct {
		b     []byte
		count uint32
	}{
		"nothing":            {nil, 0},
		"no record":          {[]byte{1}, 0},
		"an unknown format":  {append([]byte{9}, good[1:]...), 2},
		"too few records":    {good, 3},
		"too many records":   {good, 1},
		"a cut record":       {good[:len(good)-1], 2},
		"trailing bytes":     {append(append([]byte{}, good...), 7), 2},
		"an endless length":  {[]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1},
		"a body of nonsense": {[]byte{1, 2, 0xff, 0xff}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := batch.Check(tc.b, tc.count, 1<<20); !errors.Is(err, batch.ErrMalformed) {
				t.Errorf("Check = %v, want ErrMalformed", err)
			}
		})
	}
	var large *batch.TooLargeError
	if err := batch.Check(good, 2, 4); !errors.As(err, &large) {
		t.Errorf("Check over the bound = %v, want *TooLargeError", err)
	}
}

// FuzzCheck holds Check and Records to one verdict on any bytes, without a panic.
func FuzzCheck(f *testing.F) {
	f.Add(batch.Append(nil, batch.Record{Value: []byte("v")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, bad := uint32(0), false
		for _, err := range batch.Records(b) {
			if err != nil {
				bad = true
				break
			}
			n++
		}
		err := batch.Check(b, n, len(b))
		if (err == nil) != (!bad && n > 0) {
			t.Fatalf("Check = %v, Records: %d records, malformed %v", err, n, bad)
		}
	})
}
