package runtime

import (
	"testing"

	"pgregory.net/rapid"
)

func TestBytes(t *testing.T) {
	tests := map[string]struct {
		want Bytes
		ok   bool
	}{
		"0":                    {0, true},
		"4096":                 {4096, true},
		"7B":                   {7, true},
		"64KiB":                {64 << 10, true},
		"8MiB":                 {8 << 20, true},
		"8 MiB":                {8 << 20, true},
		"2GiB":                 {2 << 30, true},
		"4611686018427387904":  {1 << 62, true},
		"4611686018427387905":  {0, false}, // above the bound
		"4294967296GiB":        {1 << 62, true},
		"4294967297GiB":        {0, false},
		"9999999999999999999":  {0, false},
		"":                     {0, false},
		"MiB":                  {0, false},
		"-1":                   {0, false},
		"8MB":                  {0, false},
		"8mib":                 {0, false},
		"1.5GiB":               {0, false},
		"8MiBKiB":              {0, false},
		"0x10":                 {0, false},
		"1_000":                {0, false},
		"one and a half score": {0, false},
	}
	for in, tc := range tests {
		t.Run(in, func(t *testing.T) {
			got := Bytes(-7)
			err := got.Set(in)
			if (err == nil) != tc.ok {
				t.Fatalf("Set(%q) = %v", in, err)
			}
			if want := tc.want; tc.ok && got != want || !tc.ok && got != -7 {
				t.Errorf("Set(%q) made %d, want %d and nothing changed on an error", in, got, want)
			}
		})
	}
}

func TestBytesPrintsWhatItReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Bytes(rapid.Int64Range(0, 1<<32).Draw(t, "n") << rapid.IntRange(0, 30).Draw(t, "shift"))
		var got Bytes
		if err := got.Set(want.String()); err != nil || got != want {
			t.Fatalf("%d is printed as %q and read as %d, %v", want, want.String(), got, err)
		}
	})
}
