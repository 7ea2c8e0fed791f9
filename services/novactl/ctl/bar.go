package ctl

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"
)

// bar is the progress line of produce. On anything but a terminal it shows nothing.
type bar struct {
	shown *progressbar.ProgressBar // nil: none
	out   io.Writer
}

func newBar(out io.Writer, terminal bool, stream string) *bar {
	if !terminal {
		return &bar{}
	}
	return &bar{out: out, shown: progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription("produce to "+stream),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("records"),
		progressbar.OptionSetSpinnerChangeInterval(0), // it would take a goroutine that nobody waits for
		progressbar.OptionThrottle(100_000_000),       // ns
		progressbar.OptionClearOnFinish(),
	)}
}

// acknowledged shows how many records are safe.
func (b *bar) acknowledged(n int) {
	if b.shown != nil {
		_ = b.shown.Set(n) // a terminal that went away is no reason to stop
	}
}

// end leaves the terminal's line empty.
func (b *bar) end() {
	if b.shown == nil {
		return
	}
	_ = b.shown.Finish()
	fmt.Fprint(b.out, "\r")
}
