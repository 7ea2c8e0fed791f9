package flightlog

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// tempFile is a file on its way to its final name.
//
// Where the file system permits it has no name before that: a crash leaves nothing, and the disk is told
// of one folder entry instead of three, which makes small flights more than twice as fast. Elsewhere it
// is named in a folder of the copy's own.
type tempFile struct {
	*os.File
	named bool
}

const (
	tempFolder = ".tmp"
	// tempAge is when a named temporary file is taken to be a crashed writer's. Should it be a stalled
	// one's, then its link fails, and the put is repeated.
	tempAge = 10 * time.Minute
	// writeBuffer joins small parts into larger writes; larger parts pass it by.
	writeBuffer = 64 << 10
)

var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

func (c *fileCopy) newTemp() (tempFile, error) {
	folder := filepath.Join(c.root, tempFolder)
	if c.unnamed {
		f, err := openUnnamed(folder)
		return tempFile{f, false}, err
	}
	f, err := os.OpenFile(filepath.Join(folder, c.owner+"-"+strconv.FormatUint(c.temps.Add(1), 10)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	return tempFile{f, true}, err
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

// link gives the file its final name, unless one stands there.
func (t tempFile) link(path string) error {
	if t.named {
		return os.Link(t.Name(), path)
	}
	return linkUnnamed(t.File, path)
}

// discard lets go of the file, which stays under its final name if it got one.
func (t tempFile) discard() {
	_ = t.Close() // what was worth keeping was synced
	if t.named {
		_ = os.Remove(t.Name()) // one that stays is swept at a later open
	}
}

// canBeUnnamed finds out whether files can be made without a name and be given one.
func canBeUnnamed(temps string) bool {
	f, err := openUnnamed(temps)
	if err != nil {
		return false
	}
	defer f.Close()
	try := filepath.Join(temps, "try-"+strconv.Itoa(os.Getpid()))
	if err := linkUnnamed(f, try); err != nil && !errors.Is(err, os.ErrExist) {
		return false
	}
	_ = os.Remove(try) // else swept
	return true
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
