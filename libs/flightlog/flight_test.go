package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"nova.internal/libs/api/novav1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func genBatches() *rapid.Generator[[]Batch] {
	return rapid.Custom(func(t *rapid.T) []Batch {
		var batches []Batch
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			var id ulid.ULID
			copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
			id[0] &= 0x7f
			records := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "records")
			batches = append(batches, Batch{
				Stream: id.String(), Epoch: rapid.Uint64().Draw(t, "epoch"), Base: rapid.Uint64Range(0, 1<<63).Draw(t, "base"),
				Count: rapid.Uint32Range(1, 1<<32-1).Draw(t, "count"), CRC: crc32.Checksum(records, castagnoli),
				Producer: rapid.StringN(0, 20, MaxProducerBytes).Draw(t, "producer"), Number: rapid.Uint64().Draw(t, "number"), Records: records,
			})
		}
		return batches
	})
}

func mustSeal(t rapid.TB, h Header, batches []Batch) *sealedFlight {
	t.Helper()
	o := &openFlight{}
	for _, b := range batches {
		if err := o.add(b); err != nil {
			t.Fatal(err)
		}
	}
	return o.seal(h, time.Time{})
}

func TestAFlightIsReadAsItWasSealed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := genBatches().Draw(t, "batches")
		h := Header{
			Chain: rapid.StringN(1, 40, maxChainBytes).Draw(t, "chain"), Class: novav1.Class(rapid.IntRange(0, 2).Draw(t, "class")),
			Slot: rapid.Uint64().Draw(t, "slot"), Committed: rapid.Uint64().Draw(t, "committed"), Nonce: [16]byte{1, 2},
		}
		f := mustSeal(t, h, batches)
		object := bytes.Join(f.parts, nil)
		p, err := Verify(object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&Prefix{Header: h, Bytes: len(f.parts[0]), Batches: f.refs}, p); diff != "" {
			t.Fatalf("prefix (-want +got):\n%s", diff)
		}
		if _, err := DecodePrefix(object[:p.Bytes]); err != nil {
			t.Fatalf("the prefix alone: %v", err)
		}
		if nonceOf(object[:flightFixed]) != h.Nonce {
			t.Fatal("the nonce is not found in the fixed part")
		}
		for i, r := range p.Batches {
			if !bytes.Equal(object[r.Offset:r.Offset+uint64(r.Length)], batches[i].Records) || &f.parts[i+1][0] != &batches[i].Records[0] {
				t.Fatalf("batch %d was moved or copied", i)
			}
		}
		at := rapid.IntRange(0, len(object)-1).Draw(t, "damaged byte")
		object[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := Verify(object); err == nil {
			t.Fatalf("a flight with byte %d of %d damaged passes", at, len(object))
		}
		if kind, _ := Classify(object[:min(len(object), MaxPoisonBytes+1)], h.Chain, h.Slot); kind != KindFlight {
			t.Fatal("a damaged flight counts as poison")
		}
	})
}

func TestNewerVersionsAreRefusedByName(t *testing.T) {
	object := bytes.Join(mustSeal(t, Header{Chain: "c"}, []Batch{{Stream: ulid.ULID{}.String(), Count: 1, Records: []byte("x")}}).parts, nil)
	object[4]++
	if _, err := DecodePrefix(object); !errors.Is(err, ErrNewer) || errors.Is(err, ErrCorrupt) {
		t.Errorf("DecodePrefix = %v, want ErrNewer", err)
	}
	poison := Poison{Chain: "c"}.Encode()
	poison[4]++
	if _, err := DecodePoison(poison); !errors.Is(err, ErrNewer) {
		t.Errorf("DecodePoison = %v, want ErrNewer", err)
	}
	if _, err := Classify(poison, "c", 0); !errors.Is(err, ErrNewer) {
		t.Errorf("Classify = %v, want ErrNewer", err)
	}
}

func TestAPoisonIsReadAsItWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Poison{
			Chain: rapid.StringN(0, 40, maxChainBytes).Draw(t, "chain"), Slot: rapid.Uint64().Draw(t, "slot"),
			Fencer: rapid.StringN(0, 40, maxFencer).Draw(t, "fencer"), Nonce: [16]byte{3},
		}
		b := p.Encode()
		got, err := DecodePoison(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatalf("poison (-want +got):\n%s", diff)
		}
		if kind, err := Classify(b, p.Chain, p.Slot); kind != KindPoison || err != nil {
			t.Fatalf("Classify = %v, %v", kind, err)
		}
		if kind, err := Classify(b, p.Chain+"x", p.Slot); kind != KindFlight || err != nil {
			t.Fatalf("Classify in another chain = %v, %v", kind, err)
		}
		at := rapid.IntRange(0, len(b)-1).Draw(t, "damaged byte")
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if kind, _ := Classify(b, p.Chain, p.Slot); kind == KindPoison {
			t.Fatalf("a poison with byte %d damaged counts as poison", at)
		}
	})
	long := Poison{Chain: string(bytes.Repeat([]byte("c"), 2000)), Fencer: string(bytes.Repeat([]byte("f"), 2000))}
	if n := len(long.Encode()); n != MaxPoisonBytes {
		t.Errorf("the longest poison has %d bytes, want %d", n, MaxPoisonBytes)
	}
}

// goldens are objects as this format has them for ever: whatever writes or reads version 1 must agree.
func goldens() map[string][]byte {
	id := func(n byte) string { return ulid.ULID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, n}.String() }
	var batches []Batch
	for i := range 3 {
		records := fmt.Appendf(nil, "the records of batch %d", i)
		batches = append(batches, Batch{
			Stream: id(byte(i % 2)), Epoch: uint64(7 + i), Base: uint64(1000 * i), Count: uint32(1 + i), CRC: crc32.Checksum(records, castagnoli),
			Producer: []string{"", "producer-1", ""}[i], Number: uint64(300 * i), Records: records,
		})
	}
	o := &openFlight{}
	for _, b := range batches {
		if err := o.add(b); err != nil {
			panic(err)
		}
	}
	h := Header{Chain: "star-1/01JZZZZZZZZZZZZZZZZZZZZZZZ/standard", Class: novav1.Class_CLASS_STANDARD, Slot: 258, Committed: 255, Nonce: [16]byte{0: 0xaa, 15: 0xbb}}
	return map[string][]byte{
		"flight-1": bytes.Join(o.seal(h, time.Time{}).parts, nil),
		"poison-1": Poison{Chain: h.Chain, Slot: 259, Fencer: "star-2", Nonce: [16]byte{0: 0xcc, 15: 0xdd}}.Encode(),
	}
}

func TestTheFormatsOnDiskStayAsTheyAre(t *testing.T) {
	for name, got := range goldens() {
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: what is written changed (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzDecodeFlight(f *testing.F) {
	for _, b := range goldens() {
		f.Add(b)
	}
	f.Add([]byte("NOVF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The least of some runs, since the count holds what the fuzzer's own goroutines allocate as well.
		least := ^uint64(0)
		for range 5 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = DecodePrefix(b)
			runtime.ReadMemStats(&after)
			if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= uint64(20*len(b)+4096) {
				break
			}
		}
		if least > uint64(20*len(b)+4096) {
			t.Fatalf("%d bytes of input made it allocate %d", len(b), least)
		}
		p, err := DecodePrefix(b)
		if _, verr := Verify(b); err != nil && verr == nil {
			t.Fatalf("Verify accepts what DecodePrefix refuses: %v", err)
		}
		if err == nil && (p.Bytes > len(b) || len(p.Batches) > MaxBatches) {
			t.Fatalf("a prefix of %d bytes with %d batches from %d bytes", p.Bytes, len(p.Batches), len(b))
		}
		nonceOf(b)
		// Behind the checksum as well: a table that a writer with a fault could have signed.
		if n, err := prefixBytes(b); err == nil && n <= len(b) {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b[n-4:], crc32.Checksum(b[:n-4], castagnoli))
			checkDecoded(t, b)
		}
	})
}

// checkDecoded holds a prefix that reads to what everything behind the decoder takes for granted.
func checkDecoded(t *testing.T, b []byte) {
	p, err := DecodePrefix(b)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
			t.Fatalf("DecodePrefix = %v, which is neither corrupt nor newer", err)
		}
		return
	}
	offset := uint64(p.Bytes)
	for _, r := range p.Batches {
		if r.Offset != offset || r.End() <= r.Base || r.Length == 0 || r.Slot != p.Slot || len(r.Producer) > MaxProducerBytes {
			t.Fatalf("a batch reads as %+v, the next offset is %d", r, offset)
		}
		if id, err := ulid.ParseStrict(r.Stream); err != nil || id.String() != r.Stream {
			t.Fatalf("a batch is of stream %q: %v", r.Stream, err)
		}
		offset += uint64(r.Length)
	}
}

func FuzzDecodePoison(f *testing.F) {
	for _, b := range goldens() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkPoison(t, b)
		if len(b) >= 4 { // and behind the checksum
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
			checkPoison(t, b)
		}
	})
}

// checkPoison: what reads as a poison is one that Encode writes, and nothing else counts as one.
func checkPoison(t *testing.T, b []byte) {
	p, err := DecodePoison(b)
	if err == nil && !bytes.Equal(p.Encode(), b) {
		t.Fatalf("%x reads as %+v, which is %x", b, p, p.Encode())
	}
	if kind, kerr := Classify(b, p.Chain, p.Slot); (kind == KindPoison) != (err == nil) || kerr != nil && !errors.Is(kerr, ErrNewer) {
		t.Fatalf("Classify = %v, %v; DecodePoison: %v", kind, kerr, err)
	}
}

func TestAClaimOfManyBatchesAllocatesNothingForThem(t *testing.T) {
	b := bytes.Join(mustSeal(t, Header{Chain: "c"}, []Batch{{Stream: ulid.ULID{}.String(), Count: 1, Records: []byte("x")}}).parts, nil)
	n, err := prefixBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b[44:], MaxBatches)
	binary.LittleEndian.PutUint32(b[n-4:], crc32.Checksum(b[:n-4], castagnoli))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = DecodePrefix(b)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("DecodePrefix = %v, want ErrCorrupt", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<10 {
		t.Errorf("%d bytes of input made it allocate %d", len(b), got)
	}
}
