//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// layout are the options that table files are written with.
type layout struct {
	Compression string  `json:"compression"`
	BlockSize   int64   `json:"block_size"`
	Bloom       float64 `json:"bloom"`
}

func (o *Options) layout() layout {
	return layout{Compression: o.Compression, BlockSize: o.BlockSize, Bloom: o.Bloom}
}

// States of a manifest.
const (
	stateLoading = "loading" // or broken off
	stateLoaded  = "loaded"
	stateWritten = "written" // loaded, and changed by clients since
)

// manifest says what a directory was loaded with. It is a file beside RocksDB's.
type manifest struct {
	Dataset Dataset `json:"dataset"`
	Layout  layout  `json:"layout"`
	State   string  `json:"state"`
	Items   int64   `json:"items"`
	Bytes   int64   `json:"bytes"` // of values
}

// ManifestName is the name of the manifest's file.
const ManifestName = "spillway-dataset.json"

// readManifest returns nil where there is none.
func readManifest(dir string) (*manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &manifest{}
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read, so nobody knows what the store was loaded with: %w; delete the directory to load it anew", ManifestName, err)
	}
	return m, nil
}

// write replaces the file as a whole, and returns once it is on the disk.
func (m *manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, ManifestName)
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// refuse says why a directory with this manifest cannot be used where want is asked for, nil if it can.
func (m *manifest) refuse(dir string, want Dataset, layout layout) error {
	remedy := "delete the directory to load it anew, or choose another"
	switch {
	case m == nil:
		return fmt.Errorf("directory %s has a store that was not loaded but written by clients: choose another directory to load, or leave --load out", dir)
	case !slices.Equal(m.Dataset, want):
		return fmt.Errorf("directory %s was loaded with other data: it has %v, asked for is %v; %s", dir, m.Dataset, want, remedy)
	case m.Layout != layout:
		return fmt.Errorf("directory %s was loaded with other options: %+v, asked for is %+v; %s", dir, m.Layout, layout, remedy)
	}
	return nil
}
