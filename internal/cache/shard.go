//go:build linux

package cache

import "sync"

// shard is a part of the keys: an index, and an LRU list for each size class. Everything in it is guarded by mu, which is never held
// together with another shard's except by TryLock.
type shard struct {
	mu    sync.Mutex
	cache *Cache
	arena *arena
	id    uint16

	index  index
	lists  []list // by class
	counts [MaxCounters]uint64

	items, bytes, total int64
	pinned              int64 // items with pins

	_ [64]byte // so that the locks of two shards do not share a cache line
}

// list is what a shard has of one size class.
type list struct {
	front, back ref    // LRU list of the items whose first chunk is of this class
	roomy       uint32 // first page with room; 0 is none
	pages       int
	turn        uint32 // evictions since another class was last looked at

	items, bytes                       int64 // of items whose first chunk is of this class
	evictions, reclaimed, noMemory     uint64
	evictedUnfetched, expiredUnfetched uint64
	evictedNonzero                     uint64
	evictedAge                         int64
}

func (s *shard) init(c *Cache, id uint16) error {
	s.cache, s.arena, s.id = c, c.arena, id
	s.lists = make([]list, len(classes))
	return s.index.init(c.arena)
}

// dead reports whether an item has expired or was flushed.
func (s *shard) dead(h *header, now int64) bool {
	return s.flushed(h) || h.expires != 0 && int64(h.expires) <= now
}

func (s *shard) flushed(h *header) bool { return h.cas <= s.cache.flushed.Load() }

// bytes is what an item counts for: header, key and value.
func (h *header) bytes() int64 { return int64(headerBytes) + int64(h.keyLen) + int64(h.size) }

// link makes an item visible.
func (s *shard) link(r ref, h *header) {
	s.index.insert(r, h)
	h.marks |= isLinked
	l := s.listOf(r)
	s.pushFront(l, r, h)
	s.items++
	s.total++
	l.items++
	l.bytes += h.bytes()
	s.bytes += h.bytes()
	s.index.grow(s.items)
}

// unlink makes an item invisible and frees it, now or when the last pin is gone.
func (s *shard) unlink(r ref) {
	h := s.arena.header(r)
	s.index.remove(r, h)
	l := s.listOf(r)
	s.remove(l, h)
	h.marks &^= isLinked
	s.items--
	l.items--
	l.bytes -= h.bytes()
	s.bytes -= h.bytes()
	if h.pins == 0 {
		s.free(r)
	}
}

func (s *shard) listOf(r ref) *list { return &s.lists[s.arena.pages[pageOf(r)].class] }

func (s *shard) pushFront(l *list, r ref, h *header) {
	h.prev, h.succ = 0, l.front
	if l.front != 0 {
		s.arena.header(l.front).prev = r
	} else {
		l.back = r
	}
	l.front = r
}

func (s *shard) remove(l *list, h *header) {
	if h.prev != 0 {
		s.arena.header(h.prev).succ = h.succ
	} else {
		l.front = h.succ
	}
	if h.succ != 0 {
		s.arena.header(h.succ).prev = h.prev
	} else {
		l.back = h.prev
	}
}

func (s *shard) moveToFront(r ref, h *header) {
	l := s.listOf(r)
	if l.front == r {
		return
	}
	s.remove(l, h)
	s.pushFront(l, r, h)
}
