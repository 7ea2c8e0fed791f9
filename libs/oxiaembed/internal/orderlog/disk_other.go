//go:build !linux

package orderlog

import "os"

func reserve(f *os.File, bytes int64) error { return extend(f, bytes) }

func flush(f *os.File) error { return f.Sync() }
