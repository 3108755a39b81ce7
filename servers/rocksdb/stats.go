//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/memproto"
)

// counts are those of a Backend, in memcached's meaning where it has them.
type counts struct {
	gets, hits, sets         atomic.Uint64
	deleteHits, deleteMisses atomic.Uint64
	scans, scanned           atomic.Uint64
	memory, large            atomic.Uint64
	wrong, tooLarge          atomic.Uint64
	failed, panics           atomic.Uint64
}

func (c *counts) deleted(r memproto.Result) {
	if r == memproto.Done {
		c.deleteHits.Add(1)
		return
	}
	c.deleteMisses.Add(1)
}

// propertyNames are RocksDB's names of its properties that are numbers. Those that are texts for people are left out.
var propertyNames = []string{
	"estimate-num-keys", "estimate-live-data-size", "total-sst-files-size", "live-sst-files-size", "num-files-at-level0", "num-files-at-level6",
	"cur-size-active-mem-table", "cur-size-all-mem-tables", "size-all-mem-tables", "num-entries-active-mem-table", "num-entries-imm-mem-tables",
	"num-deletes-active-mem-table", "num-immutable-mem-table", "num-immutable-mem-table-flushed", "mem-table-flush-pending", "num-running-flushes",
	"compaction-pending", "num-running-compactions", "estimate-pending-compaction-bytes", "background-errors", "is-write-stopped",
	"actual-delayed-write-rate", "block-cache-capacity", "block-cache-usage", "block-cache-pinned-usage", "estimate-table-readers-mem",
	"num-snapshots", "oldest-snapshot-time", "num-live-versions", "current-super-version-number", "base-level", "min-log-number-to-keep",
	"is-file-deletions-enabled",
}

const (
	propertyPrefix = "rocksdb."
	// propertyEvery is how often properties are read. Asking RocksDB takes one of its locks, so nobody who must not wait does.
	propertyEvery = time.Second
)

// properties are what RocksDB last said of itself.
type properties struct {
	mu struct {
		sync.Mutex
		values []string // by propertyNames; "" for one that it does not know
	}
}

func (p *properties) read(s *store) {
	values := make([]string, len(propertyNames))
	for i, name := range propertyNames {
		values[i] = s.db.GetProperty(propertyPrefix + name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.values = values
}

// follow keeps p up to date until stop is closed.
func (p *properties) follow(s *store, stop <-chan struct{}) {
	ticker := time.NewTicker(propertyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			p.read(s)
		}
	}
}

// all yields the properties that there are.
func (p *properties) all(yield func(name, value string) bool) {
	p.mu.Lock()
	values := p.mu.values
	p.mu.Unlock()
	for i, v := range values {
		if v != "" && !yield(propertyPrefix+propertyNames[i], v) {
			return
		}
	}
}

// Stats yields the store's figures, in memcached's names where it has one. A scan is a get, as clients count it, that neither hit
// nor missed. Those that begin with rocksdb_ are RocksDB's properties.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	c := &b.counts
	_, held := b.pinned()
	gets, hits, scans := c.gets.Load(), c.hits.Load(), c.scans.Load()
	for _, row := range []struct {
		name  string
		value uint64
	}{
		{"cmd_get", gets + scans}, {"cmd_set", c.sets.Load()}, {"get_hits", hits}, {"get_misses", gets - min(hits, gets)},
		{"delete_hits", c.deleteHits.Load()}, {"delete_misses", c.deleteMisses.Load()},
		{"scans", scans}, {"scanned_items", c.scanned.Load()}, {"gets_from_memory", c.memory.Load()}, {"large_gets", c.large.Load()},
		{"wrong_commands", c.wrong.Load()}, {"store_too_large", c.tooLarge.Load()}, {"store_errors", c.failed.Load()}, {"panics", c.panics.Load()},
		{"bytes_moved", b.moved.Load()}, {"values_pinned", held}, {"large_items", uint64(b.store.large.len())}, {"workers", uint64(b.config.Workers)},
		{"limit_item_bytes", uint64(b.config.MaxItem)},
	} {
		if !yield(row.name, row.value) {
			return
		}
	}
	for name, text := range b.properties.all {
		value, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			continue
		}
		if name == propertyPrefix+"estimate-num-keys" && !yield("curr_items", value) {
			return
		}
		if !yield(strings.NewReplacer(".", "_", "-", "_").Replace(name), value) {
			return
		}
	}
}

// pinned returns how many values have been kept where they are in the store, and how many of them still are.
func (b *Backend) pinned() (ever, now uint64) {
	back := b.store.unpinned.Load() // first: what is given back in between must not be more than was taken
	ever = b.store.pinned.Load()
	return ever, ever - back
}

// Detail yields what `stats rocksdb` shows, which are RocksDB's own properties, and `stats settings`.
func (b *Backend) Detail(topic string) (rows iter.Seq2[string, string], known bool) {
	switch topic {
	case "rocksdb":
		return b.properties.all, true
	case "settings":
		return b.settings, true
	}
	return nil, false
}

// Reset sets the counts that only grow back to 0.
func (b *Backend) Reset() {
	c := &b.counts
	for _, n := range []*atomic.Uint64{
		&c.gets, &c.hits, &c.sets, &c.deleteHits, &c.deleteMisses, &c.scans, &c.scanned, &c.memory, &c.large, &c.wrong, &c.tooLarge, &c.failed,
	} {
		n.Store(0)
	}
}

func (b *Backend) settings(yield func(name, value string) bool) {
	c := &b.config
	for _, row := range [][2]string{
		{"item_size_max", strconv.FormatInt(c.MaxItem, 10)}, {"cas_enabled", "yes"}, {"flush_enabled", "no"}, {"workers", strconv.Itoa(c.Workers)},
		{"large", strconv.FormatInt(c.Large, 10)}, {"wal", c.WAL}, {"compression", c.Compression}, {"compaction", c.Compaction},
		{"block_cache", strconv.FormatInt(c.BlockCache, 10)}, {"block_size", strconv.FormatInt(c.BlockSize, 10)},
		{"bloom", strconv.FormatFloat(c.Bloom, 'g', -1, 64)}, {"write_buffer", strconv.FormatInt(c.WriteBuffer, 10)},
		{"open_files", strconv.Itoa(c.OpenFiles)}, {"mmap_reads", strconv.FormatBool(c.MmapReads)}, {"mmap_writes", strconv.FormatBool(c.MmapWrites)},
		{"direct_io", strconv.FormatBool(c.DirectIO)}, {"checksums", strconv.FormatBool(c.Checksums)},
	} {
		if !yield(row[0], row[1]) {
			return
		}
	}
}
