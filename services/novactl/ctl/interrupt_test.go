package ctl

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
	"nova.internal/libs/client/clienttest"
)

// The leader answers nothing, and more lines wait than are counted at a time.
func TestAnInterruptEndsAProduceThatGetsNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := clienttest.New(t, clienttest.Options{NoNetwork: true, Fault: func() clienttest.Fault { return clienttest.Swallow }})
		f.Create("s", novav1.Mode_MODE_ANY)
		fleet, err := client.Dial(t.Context(), client.Config{Gateway: f.Gateway(), DialOptions: f.DialOptions()})
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close()
		var out bytes.Buffer
		p := &production{cli: &cli{Streams: Streams{Out: &out}}}
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Second, interrupt)
		begun := time.Now()
		err = p.run(ctx, fleet, "s", strings.NewReader(strings.Repeat("\n", 100_000)))
		if took := time.Since(begun); took != 20*time.Second+flushTimeout {
			t.Errorf("it took %v, want the 20 s before the interrupt and %v", took, flushTimeout)
		}
		if err == nil || exitCode(err) != exitFailed {
			t.Fatalf("run returned %v", err)
		}
		text := explain(err)
		for _, words := range []string{"0 records acknowledged", "interrupted", "may be stored or not", "consume s --from last"} {
			if !strings.Contains(text, words) {
				t.Errorf("%q does not say %q", text, words)
			}
		}
		if out.String() != "acknowledged 0 records\n" {
			t.Errorf("printed %q", out.String())
		}
	})
}
