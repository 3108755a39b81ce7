//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linxGnu/grocksdb"
)

// Available says what to install where this was built without RocksDB, nil where it was built with it.
func Available() error { return nil }

var compressionTypes = map[string]grocksdb.CompressionType{
	"none": grocksdb.NoCompression, "snappy": grocksdb.SnappyCompression, "lz4": grocksdb.LZ4Compression, "zstd": grocksdb.ZSTDCompression,
}

// handles are what has to be given back to RocksDB at the end.
type handles struct {
	db      *grocksdb.DB
	options *grocksdb.Options
	table   *grocksdb.BlockBasedTableOptions
	cache   *grocksdb.Cache

	read   *grocksdb.ReadOptions // keeps blocks in the cache
	pass   *grocksdb.ReadOptions // large values and scans pass it by
	memory *grocksdb.ReadOptions // looks no further than memory
	write  *grocksdb.WriteOptions
	bulk   *grocksdb.WriteOptions // of loading: no log
	logged *grocksdb.WriteOptions // of what the store says of itself
}

// close closes the store. Nothing may be pinned any more.
func (h *handles) close() {
	if h.db != nil {
		h.db.Close()
	}
	for _, o := range []*grocksdb.ReadOptions{h.read, h.pass, h.memory} {
		o.Destroy()
	}
	for _, o := range []*grocksdb.WriteOptions{h.write, h.bulk, h.logged} {
		o.Destroy()
	}
	h.options.Destroy()
	h.table.Destroy()
	if h.cache != nil {
		h.cache.Destroy()
	}
}

// newHandles makes all of them but the store.
func newHandles(c *Config) *handles {
	h := &handles{
		options: grocksdb.NewDefaultOptions(), table: grocksdb.NewDefaultBlockBasedTableOptions(),
		read: grocksdb.NewDefaultReadOptions(), pass: grocksdb.NewDefaultReadOptions(), memory: grocksdb.NewDefaultReadOptions(),
		write: grocksdb.NewDefaultWriteOptions(), bulk: grocksdb.NewDefaultWriteOptions(), logged: grocksdb.NewDefaultWriteOptions(),
	}
	h.table.SetBlockSize(int(c.BlockSize))
	if c.BlockCache > 0 {
		h.cache = grocksdb.NewLRUCache(uint64(c.BlockCache))
		h.table.SetBlockCache(h.cache)
	} else {
		h.table.SetNoBlockCache(true)
	}
	if c.Bloom > 0 {
		h.table.SetFilterPolicy(grocksdb.NewBloomFilterFull(c.Bloom)) // which belongs to the table's options from here on
	}
	o := h.options
	o.SetBlockBasedTableFactory(h.table)
	o.SetCreateIfMissing(c.Create)
	o.SetCompression(compressionTypes[c.Compression])
	o.SetWriteBufferSize(uint64(c.WriteBuffer))
	o.SetMaxOpenFiles(c.OpenFiles)
	o.SetAllowMmapReads(c.MmapReads)
	o.SetAllowMmapWrites(c.MmapWrites)
	o.SetUseDirectReads(c.DirectIO)
	o.SetUseDirectIOForFlushAndCompaction(c.DirectIO)
	o.SetDisableAutoCompactions(c.Compaction == CompactionOff)
	if c.Compaction == CompactionUniversal {
		o.SetCompactionStyle(grocksdb.UniversalCompactionStyle)
	}
	// Debian's RocksDB ends the process when it writes to its own log a second time after the disk was full. So nothing goes there once the store is open:
	// errors are told to those who ask, and counted among the properties.
	o.SetInfoLogLevel(grocksdb.FatalInfoLogLevel)
	o.SetKeepLogFileNum(2)
	o.SetStatsDumpPeriodSec(0)
	for _, r := range []*grocksdb.ReadOptions{h.read, h.pass, h.memory} {
		r.SetVerifyChecksums(c.Checksums)
	}
	h.pass.SetFillCache(false)
	h.memory.SetReadTier(grocksdb.BlockCacheTier)
	h.write.DisableWAL(c.WAL == WALOff)
	h.write.SetSync(c.WAL == WALSync)
	h.bulk.DisableWAL(true)
	h.logged.SetSync(true)
	return h
}

// openStore opens the store of c, or makes it.
func openStore(c *Config) (*handles, error) {
	fresh, err := inspect(c)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err = os.WriteFile(filepath.Join(c.Dir, unfinishedName), nil, 0o666); err != nil {
			return nil, fmt.Errorf("making a store: %w", explain(err))
		}
	}
	h := newHandles(c)
	if h.db, err = grocksdb.OpenDb(h.options, c.Dir); err != nil {
		h.close()
		return nil, explainOpen(c.Dir, err)
	}
	if fresh {
		if err = h.db.Put(h.logged, formatKey, formatValue); err == nil {
			err = os.Remove(filepath.Join(c.Dir, unfinishedName))
		}
		if err != nil {
			h.close()
			return nil, fmt.Errorf("directory %s: %w", c.Dir, explain(err))
		}
		return h, nil
	}
	format, err := h.db.GetBytes(h.read, formatKey)
	switch {
	case err != nil:
		err = fmt.Errorf("directory %s: %w", c.Dir, explain(err))
	case string(format) != string(formatValue):
		err = fmt.Errorf("directory %s holds a RocksDB store of another program, or of another version of this one (format %q); choose another directory", c.Dir, format)
	default:
		return h, nil
	}
	h.close()
	return nil, err
}

// unfinishedName is the name of a file that is in a directory while its store is being made: what else is there is then of a start that was broken off, by a
// kill or by a full disk, and there is nothing to lose.
const unfinishedName = "spillway-unfinished"

// inspect says whether the store is to be made, and what is wrong with its directory.
func inspect(c *Config) (fresh bool, err error) {
	info, err := os.Stat(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Create:
		if err := os.MkdirAll(c.Dir, 0o777); err != nil {
			return false, fmt.Errorf("making the store's directory: %w", err)
		}
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("directory %s does not exist: --create makes an empty store, --load fills one", c.Dir)
	case err != nil:
		return false, fmt.Errorf("the store's directory: %w", err)
	case !info.IsDir():
		return false, fmt.Errorf("%s is no directory", c.Dir)
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return false, fmt.Errorf("the store's directory: %w", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name || strings.HasPrefix(e.Name(), name+"-") })
	}
	switch {
	case has(unfinishedName) || leftover(entries):
		if !c.Create {
			return false, fmt.Errorf("directory %s is empty: --create makes an empty store in it, --load fills one", c.Dir)
		}
		return true, nil
	case has("CURRENT"):
		return false, nil
	case has("MANIFEST") || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".sst" }):
		return false, fmt.Errorf("directory %s is damaged: it has files of a store and no file CURRENT, which names the newest; restore it from a copy, or delete it", c.Dir)
	}
	return false, fmt.Errorf("directory %s is not empty and holds no store: choose another", c.Dir)
}

// leftover reports whether entries are none, or only what an opening leaves that was broken off at once.
func leftover(entries []fs.DirEntry) bool {
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := e.Name()
		return name != "LOCK" && name != "IDENTITY" && !strings.HasPrefix(name, "LOG") && !strings.HasSuffix(name, ".dbtmp")
	})
}

// explainOpen says what can be done about an error of opening.
func explainOpen(dir string, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "lock") && (strings.Contains(text, "temporarily unavailable") || strings.Contains(text, "No locks available") ||
		strings.Contains(text, "lock hold by current process")):
		return fmt.Errorf("directory %s is in use by another process: stop that, or choose another directory (%w)", dir, err)
	case strings.HasPrefix(text, "Corruption") || strings.Contains(text, "No such file"):
		return fmt.Errorf("directory %s is damaged: restore it from a copy, or delete it and load it anew (%w)", dir, err)
	case strings.Contains(text, "Permission denied"):
		return fmt.Errorf("directory %s: this user may not write there (%w)", dir, err)
	}
	return fmt.Errorf("directory %s: %w", dir, explain(err))
}

// explain says what can be done about an error of the store.
func explain(err error) error {
	if text := err.Error(); strings.Contains(text, "No space left") || strings.Contains(text, "no space left") {
		return fmt.Errorf("the disk is full: free some of it and start again, what the log or a flush has is kept (%w)", err)
	}
	return err
}

// incomplete reports whether an error says that a read would have to leave memory.
func incomplete(err error) bool { return strings.HasPrefix(err.Error(), "Result incomplete") }
