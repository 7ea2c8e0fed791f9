package oxiaembed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A folder holds:
//
//	oxia.json                what the folder was made with
//	db/default/shard-N/      the store of shard N
//	log/shard-N/             the write-ahead log of shard N

const folderFormat = 1

// manifest is what must not change while a folder lives: another number of shards would look for rows where
// they are not.
type manifest struct {
	Format int `json:"format"`
	Shards int `json:"shards"`
}

// prepareFolder makes sure that the folder can be used as c asks, before anything that would end the process
// on a failed write touches it.
func prepareFolder(c Config) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	free, err := freeBytes(c.Dir)
	if err != nil {
		return fmt.Errorf("ask for the free space: %w", err)
	}
	if free < c.MinFreeBytes {
		return fmt.Errorf("the disk has %d bytes free, and at least %d are needed", free, c.MinFreeBytes)
	}
	// Written anew at every start: it proves that the folder takes files.
	want := manifest{Format: folderFormat, Shards: c.Shards}
	switch have, err := readManifest(c.Dir); {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(filepath.Join(c.Dir, "db")); err == nil {
			return fmt.Errorf("it holds a store and no %s: another program's folder, or a damaged one", manifestName)
		}
	case err != nil:
		return err
	case have.Format != want.Format:
		return fmt.Errorf("it has format %d, and this program knows format %d", have.Format, want.Format)
	case have.Shards != want.Shards:
		return fmt.Errorf("it was made with %d shards and cannot be used with %d", have.Shards, want.Shards)
	}
	if err := writeManifest(c.Dir, want); err != nil {
		return fmt.Errorf("write %s: %w", manifestName, err)
	}
	return nil
}

const manifestName = "oxia.json"

func readManifest(dir string) (manifest, error) {
	var m manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read %s: %w", manifestName, err)
	}
	return m, nil
}

// writeManifest replaces the file in one step, so that a crash leaves the old one or the new one.
func writeManifest(dir string, m manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, manifestName+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, manifestName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
