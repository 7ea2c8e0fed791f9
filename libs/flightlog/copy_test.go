package flightlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"nova.internal/libs/flightlog"
	"nova.internal/libs/flightlog/flightlogtest"
)

// eachCopy runs a test over every kind of store, bare and admitted.
func eachCopy(t *testing.T, test func(*testing.T, flightlog.Copy)) {
	for name, url := range map[string]func(*testing.T) string{
		"file": func(t *testing.T) string { return "file://" + t.TempDir() },
		"mem":  func(*testing.T) string { return "mem://" + ulid.Make().String() },
	} {
		t.Run(name, func(t *testing.T) { test(t, mustOpen(t, url(t))) })
		t.Run(name+" admitted", func(t *testing.T) {
			c := mustOpen(t, url(t))
			id, err := flightlog.Format(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			test(t, flightlog.Admit(c, id))
		})
	}
}

func mustOpen(t testing.TB, url string) flightlog.Copy {
	t.Helper()
	c, err := flightlog.OpenCopy(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustPut(t testing.TB, c flightlog.Copy, key string, parts ...[]byte) {
	t.Helper()
	if err := c.Put(t.Context(), key, parts...); err != nil {
		t.Fatal(err)
	}
}

func listed(t testing.TB, c flightlog.Copy, folder, after string) []string {
	t.Helper()
	var got []string
	for o, err := range c.List(t.Context(), folder, after) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", o.Key, o.Bytes))
	}
	return got
}

func TestAPutIsReadBackAndNeverReplaced(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		ctx := t.Context()
		if _, err := c.Get(ctx, "a/b/c"); !errors.Is(err, flightlog.ErrAbsent) {
			t.Errorf("Get of nothing = %v, want ErrAbsent", err)
		}
		large := bytes.Repeat([]byte("0123456789"), 30_000)
		mustPut(t, c, "a/b/c", []byte("one"), nil, []byte(" and "), large)
		want := append([]byte("one and "), large...)
		if err := c.Put(ctx, "a/b/c", []byte("two")); !errors.Is(err, flightlog.ErrExists) {
			t.Errorf("Put over an object = %v, want ErrExists", err)
		}
		if err := c.Confirm(ctx, "a/b/c"); err != nil {
			t.Errorf("Confirm = %v", err)
		}
		got, err := c.Get(ctx, "a/b/c")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Get = %d bytes, %v; want the %d put", len(got), err, len(want))
		}
		for _, r := range [][3]int64{{0, 3, 3}, {4, 3, 3}, {0, 1 << 40, int64(len(want))}, {int64(len(want)) - 2, 10, 2}, {int64(len(want)), 5, 0}, {1 << 40, 5, 0}} {
			got, err := c.GetRange(ctx, "a/b/c", r[0], r[1])
			from := min(r[0], int64(len(want)))
			if err != nil || !bytes.Equal(got, want[from:from+r[2]]) {
				t.Errorf("GetRange(%d, %d) = %d bytes, %v; want %d", r[0], r[1], len(got), err, r[2])
			}
		}
		if err := c.Delete(ctx, "a/b/c"); err != nil {
			t.Errorf("Delete = %v", err)
		}
		if err := c.Delete(ctx, "a/b/c"); err != nil {
			t.Errorf("Delete of nothing = %v", err)
		}
		if _, err := c.GetRange(ctx, "a/b/c", 0, 1); !errors.Is(err, flightlog.ErrAbsent) {
			t.Errorf("GetRange after Delete = %v, want ErrAbsent", err)
		}
	})
}

func TestAnOverwriteTakesThePlaceOfWhatStandsAndOfNothingElse(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		ctx := t.Context()
		if err := c.Overwrite(ctx, "a/b/c", []byte("x")); !errors.Is(err, flightlog.ErrAbsent) {
			t.Errorf("Overwrite of nothing = %v, want ErrAbsent", err)
		}
		if _, err := c.Get(ctx, "a/b/c"); !errors.Is(err, flightlog.ErrAbsent) {
			t.Errorf("Get after it = %v, want ErrAbsent", err)
		}
		mustPut(t, c, "a/b/c", []byte("damaged"))
		if err := c.Overwrite(ctx, "a/b/c", []byte("who"), nil, []byte("le")); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(ctx, "a/b/c"); err != nil || string(got) != "whole" {
			t.Errorf("Get = %q, %v; want what was put last", got, err)
		}
		if err := c.Put(ctx, "a/b/c", []byte("two")); !errors.Is(err, flightlog.ErrExists) {
			t.Errorf("Put over it = %v, want ErrExists", err)
		}
	})
}

// A vote may be taken while an object is replaced: it must never read as absent, nor as half of one.
func TestAnObjectIsNeverAbsentWhileItIsOverwritten(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		contents := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 50_000)}
		mustPut(t, c, "a/b", contents[0])
		done := make(chan struct{})
		var looking sync.WaitGroup
		looking.Go(func() {
			for {
				got, err := c.Get(t.Context(), "a/b")
				if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
					t.Errorf("%d bytes, %v, while it was overwritten", len(got), err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
		for i := range 50 {
			if err := c.Overwrite(t.Context(), "a/b", contents[(i+1)%2]); err != nil {
				t.Error(err)
			}
		}
		close(done)
		looking.Wait()
	})
}

func TestAListingIsOrderedByKey(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		for _, key := range []string{"f/b/2", "f/b/10", "f/a/1", "f/a-b/1", "f/a", "g/1", "f/c"} {
			if key == "f/a" && strings.HasPrefix(c.Name(), "file:") {
				key = "f/a!" // a file cannot be a folder too
			}
			mustPut(t, c, key, []byte(key))
		}
		want := []string{"f/a 3", "f/a-b/1 7", "f/a/1 5", "f/b/10 6", "f/b/2 5", "f/c 3"}
		if strings.HasPrefix(c.Name(), "file:") {
			want[0] = "f/a! 4"
		}
		if diff := cmp.Diff(want, listed(t, c, "f", "")); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		for i, after := range []string{"f/a!", "f/a-b/1", "f/a/1", "f/b/10", "f/b/2", "f/c"} {
			if diff := cmp.Diff(want[i+1:], listed(t, c, "f", after), cmp.Transformer("len", func(s []string) string { return strings.Join(s, ",") })); diff != "" {
				t.Errorf("list after %s (-want +got):\n%s", after, diff)
			}
		}
		if got := listed(t, c, "nothing/here", ""); got != nil {
			t.Errorf("a folder that is not there lists %v", got)
		}
		for range c.List(t.Context(), "f", "") { // a listing may be broken off
			break
		}
	})
}

func TestKeysStayInsideTheStore(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		ctx := t.Context()
		for _, key := range []string{"", "/", "/etc/x", "a//b", "a/", "../x", "a/../../x", "a/./b", ".tmp/x", "a/.hidden", "a\x00b", `a\b`, strings.Repeat("x", 300), strings.Repeat("x/", 600) + "x"} {
			errs := map[string]error{"Put": c.Put(ctx, key, []byte("x")), "Overwrite": c.Overwrite(ctx, key, []byte("x")), "Delete": c.Delete(ctx, key), "Confirm": c.Confirm(ctx, key)}
			_, errs["Get"] = c.Get(ctx, key)
			_, errs["GetRange"] = c.GetRange(ctx, key, 0, 1)
			for _, err := range c.List(ctx, key, "") {
				errs["List"] = err
			}
			for op, err := range errs {
				if err == nil || errors.Is(err, flightlog.ErrAbsent) || errors.Is(err, flightlog.ErrExists) {
					t.Errorf("%s(%.20q) = %v, want a refusal", op, key, err)
				}
			}
		}
	})
}

func TestOneOfManyRacingPutsWins(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		for round := range 5 {
			key := fmt.Sprintf("race/%d/x", round)
			errs := make([]error, 16)
			var race sync.WaitGroup
			for i := range errs {
				race.Go(func() { errs[i] = c.Put(t.Context(), key, fmt.Appendf(nil, "put %d", i)) })
			}
			race.Wait()
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					t.Fatalf("puts %d and %d both won", winner, i)
				case err == nil:
					winner = i
				case !errors.Is(err, flightlog.ErrExists):
					t.Fatal(err)
				}
			}
			got, err := c.Get(t.Context(), key)
			if want := fmt.Sprintf("put %d", winner); err != nil || string(got) != want {
				t.Errorf("read %q, %v; want %q", got, err, want)
			}
		}
	})
}

func TestAnEndedContextEndsEveryCall(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		mustPut(t, c, "a/b", []byte("x"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		errs := map[string]error{"Put": c.Put(ctx, "a/c", []byte("x")), "Overwrite": c.Overwrite(ctx, "a/b", []byte("y")), "Delete": c.Delete(ctx, "a/b"), "Confirm": c.Confirm(ctx, "a/b")}
		_, errs["Get"] = c.Get(ctx, "a/b")
		_, errs["GetRange"] = c.GetRange(ctx, "a/b", 0, 1)
		for _, err := range c.List(ctx, "a", "") {
			errs["List"] = err
		}
		for op, err := range errs {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want the context's error", op, err)
			}
		}
	})
}

func TestOpenCopyRefusesWhatIsNoStore(t *testing.T) {
	for _, url := range []string{"", "/srv/a", "file://host/srv/a", "file:a", "file://", "s3://bucket", "mem://", "://", "mem:"} {
		if c, err := flightlog.OpenCopy(url); err == nil {
			t.Errorf("OpenCopy(%q) = %v", url, c.Name())
		}
	}
}

func TestCopiesOfOneNameInMemoryAreOneStore(t *testing.T) {
	name := "mem://" + ulid.Make().String()
	mustPut(t, mustOpen(t, name), "a", []byte("x"))
	if b, err := mustOpen(t, name).Get(t.Context(), "a"); err != nil || string(b) != "x" {
		t.Errorf("Get = %q, %v", b, err)
	}
}

func TestIdentityIsGivenOnceAndKept(t *testing.T) {
	eachCopy(t, func(t *testing.T, c flightlog.Copy) {
		before, err := flightlog.Identify(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				id, err := flightlog.Format(t.Context(), c)
				if err != nil {
					t.Error(err)
				}
				ids[i] = id
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] || id == "" || before != "" && id != before {
				t.Errorf("identities %v, before %q", ids, before)
			}
		}
	})
}

func TestADamagedIdentityIsNoIdentity(t *testing.T) {
	for _, object := range []string{"", "{}", `{"copy":""}`, `{"copy":"x"}`, "no json", strings.Repeat("x", 10_000)} {
		c := mustOpen(t, "mem://"+ulid.Make().String())
		mustPut(t, c, "nova-copy.json", []byte(object))
		if id, err := flightlog.Identify(t.Context(), c); err == nil {
			t.Errorf("Identify of %.20q = %q", object, id)
		}
		if id, err := flightlog.Format(t.Context(), c); err == nil {
			t.Errorf("Format of %.20q = %q", object, id)
		}
	}
}

// S42: the star that formatted the store was killed before its folder was synced.
func TestAnIdentityThatWasFoundIsMadeDurable(t *testing.T) {
	_, copies := flightlogtest.Mem(t, 0, 1)
	for range 2 {
		if _, err := flightlog.Format(t.Context(), copies[0]); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(copies[0].Calls(flightlogtest.Confirm)); n != 1 {
		t.Errorf("the identity that stood was made durable %d times, want once", n)
	}
}
