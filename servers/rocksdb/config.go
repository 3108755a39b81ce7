//go:build linux

// Package rocksdb is a durable key-value store that speaks memcached: the Backend of `refserver rocksdb`. Keys and values are in a RocksDB
// directory, in the version that the distribution has (docs/adr/0008). Built without it, the package still knows its settings, and Open says
// what to install.
//
// A read that is in memory is answered on the event loop. Everything that may take longer, be it a disk, a lock or a megabyte, is done by
// workers; the event loop goes on meanwhile.
package rocksdb

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// Config says where a Backend keeps its data and how it works.
type Config struct {
	Dir    string // of the store
	Create bool   // make the store if there is none
	Options

	Workers    int   // store calls under way at once, beside those that are answered out of memory
	MaxItem    int64 // bytes of the largest value
	Large      int64 // reads of values of so many bytes and more go through the memory section; 0 for none
	HeaderOnly bool  // read a value through, but answer a hit without it
}

// Options are those of RocksDB itself.
type Options struct {
	WAL         string  // off: what is written since the last flush dies with the process; on: it dies with the computer; sync: it does not
	Compression string  // of table files: none, snappy, lz4 or zstd
	Compaction  string  // level, universal, or off: only after loading
	BlockCache  int64   // bytes; 0 for none
	BlockSize   int64   // bytes of values that are read together
	Bloom       float64 // bits a key of the filter that spares reads of keys which are not there; 0 for none
	WriteBuffer int64   // bytes of a table in memory before it is flushed
	OpenFiles   int     // kept open at most; -1 for all
	MmapReads   bool    // table files are mapped into memory, past the block cache
	MmapWrites  bool
	DirectIO    bool // table files go past the system's page cache
	Checksums   bool // of blocks are verified whenever they are read
}

// Values of Options that are words.
const (
	WALOff  = "off"
	WALOn   = "on"
	WALSync = "sync"

	CompactionLevel     = "level"
	CompactionUniversal = "universal"
	CompactionOff       = "off"
)

// compressions are the names of the kinds of compression.
var compressions = []string{"none", "snappy", "lz4", "zstd"}

// DefaultOptions suit a store whose small values fit into memory: they stay in the block cache, large ones pass it by, nothing that was
// acknowledged is lost with the process.
func DefaultOptions() Options {
	return Options{
		WAL: WALOn, Compression: "none", Compaction: CompactionLevel, BlockCache: 256 << 20, BlockSize: 4 << 10, Bloom: 10, WriteBuffer: 64 << 20,
		OpenFiles: -1, Checksums: true,
	}
}

// PaperOptions are those of Svalinn's experiment (reference §7.2): mapped files in a memory file system, no compression, compaction only after
// loading, no write-ahead log. What it leaves open is RocksDB's own default.
func PaperOptions() Options {
	return Options{
		WAL: WALOff, Compression: "none", Compaction: CompactionOff, BlockSize: 4 << 10, WriteBuffer: 64 << 20, OpenFiles: -1,
		MmapReads: true, MmapWrites: true, Checksums: true,
	}
}

// presets are the named sets of Options.
var presets = map[string]func() Options{"default": DefaultOptions, "paper": PaperOptions}

// Presets returns the names that Preset knows, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the options of that name.
func Preset(name string) (Options, error) {
	options, known := presets[name]
	if !known {
		return Options{}, fmt.Errorf("options %q: there are %s", name, strings.Join(Presets(), ", "))
	}
	return options(), nil
}

// Default returns a configuration without a directory.
func Default() Config {
	return Config{Options: DefaultOptions(), Workers: 1, MaxItem: 8 << 20, Large: 100_000}
}

const (
	// leastLarge is the least size of a large value. Smaller ones are not noted down.
	leastLarge = 16 << 10
	maxItem    = 128 << 20
	maxWorkers = 1024
)

// Check says what is wrong with c, nil if nothing is.
func (c *Config) Check() error {
	switch {
	case c.Dir == "":
		return errors.New("the store needs a directory: give one with --dir")
	case !filepath.IsLocal(c.Dir) && !filepath.IsAbs(c.Dir) && !strings.HasPrefix(c.Dir, ".."):
		return fmt.Errorf("directory %q: is no path", c.Dir)
	case strings.ContainsRune(c.Dir, 0):
		return errors.New("a directory's name has no zero bytes")
	case c.Workers < 1 || c.Workers > maxWorkers:
		return fmt.Errorf("%d workers: there are 1 to %d", c.Workers, maxWorkers)
	case c.MaxItem < 1<<10 || c.MaxItem > maxItem:
		return fmt.Errorf("a largest value of %d bytes: it is from 1 KiB to 128 MiB", c.MaxItem)
	case c.Large != 0 && (c.Large < leastLarge || c.Large > maxItem):
		return fmt.Errorf("large values from %d bytes: it is 0 for none, or from 16 KiB to 128 MiB", c.Large)
	}
	return c.Options.check()
}

// Slots returns how many requests are best in service at once: one for each loop, and two for each worker. What waits beyond that waits in the Gate, where
// the controller sees it. A worker's second one is there when it has done the first: the loop that would have to find it among the small reads
// may be busy with those, or with sockets, for longer than a large read takes (docs/adr/0035).
func Slots(loops, workers int) int { return loops + 2*workers }

// ItemLimit returns the largest item that is to be read from a connection, in memcached's count, which has the key and more in it.
func (c *Config) ItemLimit() int { return int(c.MaxItem) + itemOverhead }

// itemOverhead is more than what memcached counts beside a value.
const itemOverhead = 1 << 10

func (o *Options) check() error {
	if err := oneOf("wal", o.WAL, []string{WALOff, WALOn, WALSync}); err != nil {
		return err
	}
	if err := oneOf("compression", o.Compression, compressions); err != nil {
		return err
	}
	if err := oneOf("compaction", o.Compaction, []string{CompactionLevel, CompactionUniversal, CompactionOff}); err != nil {
		return err
	}
	switch {
	case o.BlockCache < 0 || o.BlockCache > math.MaxInt64/2:
		return fmt.Errorf("a block cache of %d bytes: must not be negative", o.BlockCache)
	case o.BlockSize < 512 || o.BlockSize > 64<<20:
		return fmt.Errorf("blocks of %d bytes: they have from 512 B to 64 MiB", o.BlockSize)
	case !(o.Bloom >= 0 && o.Bloom <= 64):
		return fmt.Errorf("a bloom filter of %v bits a key: it has 0 for none, up to 64", o.Bloom)
	case o.WriteBuffer < 64<<10 || o.WriteBuffer > 16<<30:
		return fmt.Errorf("a write buffer of %d bytes: it has from 64 KiB to 16 GiB", o.WriteBuffer)
	case o.OpenFiles != -1 && o.OpenFiles < 16:
		return fmt.Errorf("%d open files: at least 16, or -1 for all", o.OpenFiles)
	case o.DirectIO && (o.MmapReads || o.MmapWrites):
		return errors.New("direct I/O and mapped files exclude each other: choose one")
	}
	return nil
}

func oneOf(what, value string, values []string) error {
	if !slices.Contains(values, value) {
		return fmt.Errorf("%s %q: it is %s", what, value, strings.Join(values, ", "))
	}
	return nil
}
