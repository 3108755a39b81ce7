//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/linxGnu/grocksdb"

	"spillway/internal/memproto"
)

// stripes is how many locks the keys share. A write holds that of its key, so that what it has read of the old item is still so.
const stripes = 256

// store is an open RocksDB with what memcached needs on top: versions, flags, expiry, and which values are large.
type store struct {
	*handles
	dir     string
	ram     bool // the directory is in memory, so that no read waits for a disk
	large   largeIndex
	locks   [stripes]sync.Mutex
	version atomic.Uint64

	pinned, unpinned atomic.Uint64 // values that were kept where they are, and given back

	mark struct { // guards the manifest
		sync.Mutex
		manifest *manifest // nil for a store that was not loaded
	}
	clean atomic.Bool // it was loaded and not been written to since

	unlogged bool        // what is written is in memory until it is flushed, and nowhere else
	wrote    atomic.Bool // anything at all, for a client
}

// newStore opens the store of c.
func newStore(c *Config) (*store, error) {
	s := &store{dir: c.Dir, ram: inMemory(c.Dir), unlogged: c.WAL == WALOff}
	var err error
	if s.handles, err = openStore(c); err != nil {
		return nil, err
	}
	m, err := readManifest(c.Dir)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("directory %s: %w", c.Dir, err)
	}
	s.mark.manifest = m
	s.clean.Store(m != nil && m.State == stateLoaded)
	// Versions only have to grow, across restarts too; nobody writes more than one in a nanosecond.
	s.version.Store(uint64(time.Now().UnixNano()))
	s.large.init()
	if err = s.findLarge(); err != nil {
		s.close()
		return nil, fmt.Errorf("directory %s: %w", c.Dir, explain(err))
	}
	return s, nil
}

// findLarge fills the index of large values.
func (s *store) findLarge() error {
	it := s.db.NewIterator(s.read)
	defer it.Close()
	for it.Seek(largePrefix); it.ValidForPrefix(largePrefix); it.Next() {
		size, ok := memproto.ParseUint64(it.Value().Data())
		if !ok {
			return errShort
		}
		s.large.set(it.Key().Data()[len(largePrefix):], int64(size))
	}
	return it.Err()
}

// item is what a read found.
type item struct {
	header
	value []byte
	pin   *grocksdb.PinnableSliceHandle
}

// find reads an item. Where there is one, it must be released.
func (s *store) find(options *grocksdb.ReadOptions, key []byte) (it item, found bool, err error) {
	pin, err := s.db.GetPinned(options, key)
	if err != nil || !pin.Exists() {
		return it, false, err
	}
	s.pinned.Add(1)
	it.pin = pin
	if it.header, it.value, err = splitRecord(pin.Data()); err != nil {
		s.release(&it)
		return it, false, err
	}
	return it, true, nil
}

// release gives an item's value back.
func (s *store) release(it *item) {
	if it.pin != nil {
		s.free(it.pin)
		it.pin, it.value = nil, nil
	}
}

func (s *store) free(p pin) {
	p.Destroy()
	s.unpinned.Add(1)
}

// quick returns the options for a read that waits for nothing but memory, nil where there are none: mapped files of a disk do not say whether
// they are there.
func (s *store) quick(o *Options) *grocksdb.ReadOptions {
	switch {
	case s.ram:
		return s.read
	case o.BlockCache > 0 && !o.MmapReads:
		return s.memory
	}
	return nil
}

// Numbers of Linux's file systems that are in memory.
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// inMemory reports whether a directory, or the one that it is to be made in, is.
func inMemory(dir string) bool {
	var fs syscall.Statfs_t
	for syscall.Statfs(dir, &fs) != nil {
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
	return fs.Type == tmpfsMagic || fs.Type == ramfsMagic
}

// reading returns the options for reading a value that may be large.
func (s *store) reading(key []byte) *grocksdb.ReadOptions {
	if s.large.size(key) > 0 {
		return s.pass
	}
	return s.read
}

// lock takes the lock of a key.
func (s *store) lock(key []byte) *sync.Mutex {
	h := uint32(2166136261) // FNV-1a
	for _, b := range key {
		h = (h ^ uint32(b)) * 16777619
	}
	l := &s.locks[h%stripes]
	l.Lock()
	return l
}

// change is a write of one item.
type change struct {
	key, value     []byte
	flags, expires uint32
	mode           memproto.Mode // of ModeSet, ModeAdd and ModeReplace
	cas            uint64
	versioned      bool // only if the item has the version cas
}

// put stores an item if its mode allows. record is memory for the stored form, which is returned for the next one.
func (s *store) put(c *change, now int64, record []byte) (r memproto.Result, version uint64, _ []byte, err error) {
	defer s.lock(c.key).Unlock()
	if c.versioned || c.mode != memproto.ModeSet {
		old, found, err := s.head(c.key, now)
		switch {
		case err != nil:
			return r, 0, record, err
		case c.versioned && !found:
			return memproto.NotFound, 0, record, nil
		case c.versioned && old.version != c.cas:
			return memproto.Exists, 0, record, nil
		case c.mode == memproto.ModeAdd && found, c.mode == memproto.ModeReplace && !found:
			return memproto.NotStored, 0, record, nil
		}
	}
	if err := s.dirty(); err != nil {
		return r, 0, record, err
	}
	s.wrote.Store(true)
	h := header{version: s.version.Add(1), flags: c.flags, expires: c.expires}
	record = append(appendHeader(record[:0], h), c.value...)
	size := int64(len(c.value))
	if size < leastLarge {
		size = 0
	}
	if size == 0 && s.large.size(c.key) == 0 {
		err = s.db.Put(s.write, c.key, record)
	} else {
		batch := grocksdb.NewWriteBatch()
		defer batch.Destroy()
		batch.Put(c.key, record)
		note(batch, c.key, size)
		if err = s.db.Write(s.write, batch); err == nil {
			s.large.set(c.key, size)
		}
	}
	if err != nil {
		return r, 0, record, explain(err)
	}
	return memproto.Stored, h.version, record, nil
}

// note has a batch say that a value is large, or not any more.
func note(batch *grocksdb.WriteBatch, key []byte, size int64) {
	if size == 0 {
		batch.Delete(largeKey(nil, key))
		return
	}
	batch.Put(largeKey(nil, key), fmt.Append(nil, size))
}

// head reads what is kept beside a value that is there and has not expired.
func (s *store) head(key []byte, now int64) (header, bool, error) {
	it, found, err := s.find(s.reading(key), key)
	if !found {
		return header{}, false, err
	}
	defer s.release(&it)
	return it.header, !it.expired(now), nil
}

// remove deletes an item, one of a version only if versioned is set.
func (s *store) remove(key []byte, cas uint64, versioned bool, now int64) (memproto.Result, error) {
	defer s.lock(key).Unlock()
	old, found, err := s.head(key, now)
	switch {
	case err != nil:
		return memproto.Pending, err
	case !found:
		return memproto.NotFound, nil
	case versioned && old.version != cas:
		return memproto.Exists, nil
	}
	if err := s.dirty(); err != nil {
		return memproto.Pending, err
	}
	return memproto.Done, s.erase(key)
}

// erase deletes a key whose lock is held.
func (s *store) erase(key []byte) error {
	s.wrote.Store(true)
	if s.large.size(key) == 0 {
		return explained(s.db.Delete(s.write, key))
	}
	batch := grocksdb.NewWriteBatch()
	defer batch.Destroy()
	batch.Delete(key)
	note(batch, key, 0)
	err := s.db.Write(s.write, batch)
	if err == nil {
		s.large.set(key, 0)
	}
	return explained(err)
}

func explained(err error) error {
	if err != nil {
		return explain(err)
	}
	return nil
}

// bury deletes an item that was found to have expired, if it still has.
func (s *store) bury(key []byte, now int64) error {
	defer s.lock(key).Unlock()
	it, found, err := s.find(s.reading(key), key)
	if !found {
		return err
	}
	over := it.expired(now)
	s.release(&it)
	if !over {
		return nil
	}
	return s.erase(key)
}

// keep writes to the disk what is in memory only, and says when that is lost with the store that is about to be closed.
func (s *store) keep() error {
	if !s.unlogged || !s.wrote.Load() {
		return nil
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("directory %s: what was written since the last flush is lost, for there is no log of it: %w", s.dir, err)
	}
	return nil
}

// flush writes to the disk what is in memory.
func (s *store) flush() error {
	options := grocksdb.NewDefaultFlushOptions()
	defer options.Destroy()
	options.SetWait(true)
	return s.db.Flush(options)
}

// dirty notes, once and before the first change, that the store is not what it was loaded with any more.
func (s *store) dirty() error {
	if !s.clean.Load() {
		return nil
	}
	s.mark.Lock()
	defer s.mark.Unlock()
	if !s.clean.Load() {
		return nil
	}
	changed := *s.mark.manifest
	changed.State = stateWritten
	if err := changed.write(s.dir); err != nil {
		return explain(fmt.Errorf("noting that the store is being changed: %w", err))
	}
	*s.mark.manifest = changed
	s.clean.Store(false)
	return nil
}

// walk appends the answer to a scan and returns the bytes of the values that it has read.
func (s *store) walk(q *scan, now int64, answer []byte) (_ []byte, items int, moved int64, err error) {
	it := s.db.NewIterator(s.pass)
	defer it.Close()
	for it.Seek(q.start()); it.Valid() && items < q.count; it.Next() {
		key := it.Key().Data()
		if !q.within(key) {
			break
		}
		h, value, err := splitRecord(it.Value().Data())
		if err != nil {
			return answer, items, moved, fmt.Errorf("key %q: %w", bytes.ToValidUTF8(key, []byte("?")), err)
		}
		if h.expired(now) {
			continue
		}
		size := len(value)
		if items > 0 && q.values && len(answer)+size > scanBytes {
			break
		}
		items++
		answer = appendLine(answer, key, h.flags, size)
		if q.values {
			answer = append(append(answer, value...), '\n')
			moved += int64(size)
		}
	}
	return answer, items, moved, it.Err()
}
