package flightlog

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// tempFile is a file on its way to its final name, named until then in a folder of the copy's own.
//
// Files without any name before the link (O_TMPFILE) were measured: 5 to 8 per cent faster at best, which
// did not pay for a second way.
type tempFile struct{ *os.File }

const (
	tempFolder = ".tmp"
	// tempAge is when a temporary file is taken to be a crashed writer's. Should it be a stalled
	// one's, then its link fails, and the put is repeated.
	tempAge = 10 * time.Minute
	// writeBuffer joins small parts into larger writes; larger parts pass it by.
	writeBuffer = 64 << 10
)

var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

func (c *fileCopy) newTemp() (tempFile, error) {
	name := filepath.Join(c.root, tempFolder, c.owner+"-"+strconv.FormatUint(c.temps.Add(1), 10))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	return tempFile{f}, err
}

// fill writes the parts and makes them durable.
func (t tempFile) fill(parts [][]byte) error {
	w := writeBuffers.Get().(*bufio.Writer)
	defer func() { w.Reset(nil); writeBuffers.Put(w) }()
	w.Reset(t.File)
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return t.Sync()
}

// link gives the file its final name, unless something stands there.
func (t tempFile) link(path string) error { return os.Link(t.Name(), path) }

// discard lets go of the file, which stays under its final name if it got one.
func (t tempFile) discard() {
	_ = t.Close()           // what was worth keeping was synced
	_ = os.Remove(t.Name()) // one that stays is swept at a later open
}

// sweep removes what crashed writers left.
func sweep(temps string) {
	entries, err := os.ReadDir(temps)
	if err != nil {
		return // the first put will say what is wrong
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(temps, e.Name())) // one that stays costs space alone
		}
	}
}
