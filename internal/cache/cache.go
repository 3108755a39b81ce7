//go:build linux

// Package cache is a byte-bounded store of keys and values with expiry, CAS and least-recently-used eviction: what a memcached
// server keeps its items in.
//
// Items live in memory mapped outside the Go heap, so ten million of them cost the garbage collector nothing and no value is held
// twice while a collection is due. The memory is divided into pages; a page is cut into chunks of one size class; an item takes one
// chunk, or a chain of them when it is large. Keys are spread over shards, each under a lock of its own with its own index and LRU
// lists, so cores rarely meet. Pages belong to a common pool until a shard needs them; when the pool is empty a shard evicts its own
// least recently used items of the same size class, or gives up a page of a class whose items have not been used for longer, or takes
// one from another shard.
//
// Time is a number of seconds that the caller passes in: Unix time, from 1 to the end of 32 bits.
package cache

import (
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync/atomic"
)

// ErrTooLarge is the error of an item that is larger than Config.MaxItem.
var ErrTooLarge = errors.New("cache: object too large")

// ErrNoMemory is the error of an item for which no room can be made: eviction is off, or everything else is in use at this moment.
var ErrNoMemory = errors.New("cache: out of memory")

// Config says how much a cache holds.
type Config struct {
	Memory  int64 // bytes of items, headers included; at least MinMemory
	MaxItem int64 // bytes of one item, header and key included
	NoEvict bool  // refuse with ErrNoMemory when full instead of evicting
}

// MinMemory is the least that a cache can be made with.
const MinMemory = 1 << 20

// Overhead is what an item counts for beside its key and value.
const Overhead = int64(headerBytes)

// MaxCounters is how many counters there are for whoever uses a cache; see Locked.Count.
const MaxCounters = 32

// MaxShards bounds the number of shards: they are enough for the loops of a large server to rarely meet, and few enough for a small cache not to be spread thin.
const MaxShards = 64

// Cache is the store. Its methods are safe for concurrent use.
type Cache struct {
	config Config
	seed   maphash.Seed
	arena  *arena
	shards []shard
	cas    atomic.Uint64
	// flushed is the highest CAS of an item that a flush has made invalid.
	flushed atomic.Uint64
}

// New reserves address space for the whole memory; it is filled as items come.
func New(c Config) (*Cache, error) {
	if c.Memory < MinMemory {
		return nil, fmt.Errorf("cache: memory is %d bytes, must be at least %d", c.Memory, MinMemory)
	}
	if c.MaxItem < 1024 {
		return nil, fmt.Errorf("cache: the largest item is %d bytes, must be at least 1024", c.MaxItem)
	}
	a, err := newArena(c.Memory)
	if err != nil {
		return nil, err
	}
	n := 1
	for n < MaxShards && n < 4*runtime.GOMAXPROCS(0) && c.Memory/int64(2*n) >= 4*MinMemory {
		n *= 2
	}
	cache := &Cache{config: c, seed: maphash.MakeSeed(), arena: a, shards: make([]shard, n)}
	for i := range cache.shards {
		if err := cache.shards[i].init(cache, uint16(i)); err != nil {
			return nil, errors.Join(err, cache.Close())
		}
	}
	return cache, nil
}

// Close gives the memory back. Nothing may use the cache any more.
func (c *Cache) Close() error {
	var errs []error
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		errs = append(errs, s.index.close())
		s.mu.Unlock()
	}
	return errors.Join(append(errs, c.arena.close())...)
}

// Flush makes every item stored so far invalid.
func (c *Cache) Flush() { c.flushed.Store(c.cas.Load()) }

// NextCAS returns a CAS value that no item has had.
func (c *Cache) NextCAS() uint64 { return c.cas.Add(1) }

// Acquire locks the shard of key and returns what can be done there. Release must follow; nothing may block in between.
// key, of at most 255 bytes, must not change until then.
func (c *Cache) Acquire(key []byte) Locked {
	h := maphash.Bytes(c.seed, key)
	s := &c.shards[c.shardOf(h)]
	s.mu.Lock()
	return Locked{shard: s, key: key, hash: uint32(h)}
}

func (c *Cache) shardOf(hash uint64) int { return int(hash>>32) & (len(c.shards) - 1) }

// ShardOf returns the number of the shard that a key belongs to, and so of the lock that Acquire takes: from 0 to MaxShards - 1.
func (c *Cache) ShardOf(key []byte) int { return c.shardOf(maphash.Bytes(c.seed, key)) }

// Locked is the shard of one key, locked.
type Locked struct {
	shard *shard
	key   []byte
	hash  uint32
}

// Release unlocks the shard. The items that Find returned must not be used any more, unless they are pinned.
func (l Locked) Release() { l.shard.mu.Unlock() }

// Count adds one to a counter, which is the user's own: its meaning is not known here. Counters have the shard's lock, and so cost
// nothing that cores would share.
func (l Locked) Count(counter int) { l.shard.counts[counter]++ }

// Find returns the live item of the key. now is the one-second clock that expiry and recency are measured by. An expired or flushed
// item is removed on the way.
func (l Locked) Find(now int64) (Item, bool) {
	s := l.shard
	r := s.index.find(l.hash, l.key)
	if r == 0 {
		return Item{}, false
	}
	h := s.arena.header(r)
	if s.dead(h, now) {
		if s.flushed(h) {
			s.counts[CountFlushed]++
		} else {
			s.counts[CountExpired]++
		}
		s.unlink(r)
		return Item{}, false
	}
	return Item{shard: s, ref: r, h: h}, true
}

// The last two counters are counted here: how many items Find found to be flushed, and to have expired.
const (
	CountFlushed = MaxCounters - 1
	CountExpired = MaxCounters - 2
)

// Bump marks an item as just used, which decides who is evicted. Within one second the first use counts: an item that is asked for
// all the time is not moved all the time.
func (l Locked) Bump(i Item, now int64) {
	i.h.marks |= isFetched
	l.Refresh(i, now)
}

// Refresh is Bump for an item that nobody has asked for: it was written to.
func (l Locked) Refresh(i Item, now int64) {
	if i.h.used != uint32(now) {
		i.h.used = uint32(now)
		l.shard.moveToFront(i.ref, i.h)
	}
}

// Room makes a new item of the key with room for size bytes of value, not yet visible. Make it visible with Link, or give it back with
// Abandon; the shard may be released and acquired again before. Nobody else sees the item, so its value may be written meanwhile.
//
// Room may evict any item that is not pinned, that of the key included.
func (l Locked) Room(size int, now int64) (Item, error) {
	s := l.shard
	if int64(headerBytes+len(l.key)+size) > s.cache.config.MaxItem {
		return Item{}, ErrTooLarge
	}
	r, err := s.allocate(l.key, size, now)
	if err != nil {
		return Item{}, err
	}
	h := s.arena.header(r)
	h.hash, h.used = l.hash, uint32(now)
	return Item{shard: s, ref: r, h: h}, nil
}

// Link puts an item from Room in the place of what the key had, with a new CAS value.
func (l Locked) Link(i Item) {
	if old := l.shard.index.find(l.hash, l.key); old != 0 {
		l.shard.unlink(old)
	}
	i.h.cas = l.shard.cache.NextCAS()
	l.shard.link(i.ref, i.h)
}

// Replace is Link for a caller that has just found what the key has, without releasing the shard since.
func (l Locked) Replace(old, fresh Item) {
	l.shard.unlink(old.ref)
	fresh.h.cas = l.shard.cache.NextCAS()
	l.shard.link(fresh.ref, fresh.h)
}

// Insert is Link for a caller that has just found that the key has nothing, without releasing the shard since.
func (l Locked) Insert(fresh Item) {
	fresh.h.cas = l.shard.cache.NextCAS()
	l.shard.link(fresh.ref, fresh.h)
}

// Abandon gives back an item from Room.
func (l Locked) Abandon(i Item) { l.shard.free(i.ref) }

// Delete removes an item.
func (l Locked) Delete(i Item) { l.shard.unlink(i.ref) }

// Same reports whether a pinned item is still what its key has, in the version cas.
func (l Locked) Same(i Item, cas uint64) bool { return i.h.marks&isLinked != 0 && i.h.cas == cas }

// Unpin ends a Pin of an item of this shard.
func (l Locked) Unpin(i Item) { l.shard.unpin(i.ref, i.h) }

// ForEach calls f with every live item, shard by shard, each shard locked meanwhile.
func (c *Cache) ForEach(now int64, f func(key []byte, i Item)) {
	for n := range c.shards {
		s := &c.shards[n]
		s.mu.Lock()
		s.index.each(func(r ref, h *header) {
			if !s.dead(h, now) {
				f(s.arena.key(r), Item{shard: s, ref: r, h: h})
			}
		})
		s.mu.Unlock()
	}
}
