//go:build linux

package cache

// evictReach is how many items are passed over at the end of an LRU list, because they are in use, before giving up on it.
const evictReach = 64

// evictOne evicts the least recently used item of a class that nobody has pinned.
func (s *shard) evictOne(class uint8, now int64) bool {
	r := s.lists[class].back
	for range evictReach {
		if r == 0 {
			return false
		}
		h := s.arena.header(r)
		if h.pins == 0 {
			s.evict(r, now)
			return true
		}
		r = h.prev
	}
	return false
}

// reclaimOne removes an item of a class that has expired or was flushed, if there is one near the end of its LRU list.
func (s *shard) reclaimOne(class uint8, now int64) bool {
	r := s.lists[class].back
	for range evictReach {
		if r == 0 {
			return false
		}
		h := s.arena.header(r)
		if h.pins == 0 && s.dead(h, now) {
			s.evict(r, now)
			return true
		}
		r = h.prev
	}
	return false
}

// emptyDeadPage gives back a page that has nothing but items that have expired or were flushed, if one is found where the least recently
// used items of the classes are.
func (s *shard) emptyDeadPage(now int64) bool {
	for class := range s.lists {
		r := s.lists[class].back
		if r == 0 || !s.dead(s.arena.header(r), now) {
			continue
		}
		p := pageOf(r)
		dead := s.evictable(p)
		for i := uint32(0); dead && i < uint32(s.arena.pages[p].cut); i++ {
			if o := s.ownerIn(p, i); o != 0 {
				dead = s.dead(s.arena.header(o), now)
			}
		}
		if dead {
			s.evictPage(p, now)
			return true
		}
	}
	return false
}

func (s *shard) evict(r ref, now int64) {
	l, h := s.listOf(r), s.arena.header(r)
	unfetched := h.marks&isFetched == 0
	if s.dead(h, now) {
		l.reclaimed++
		if unfetched {
			l.expiredUnfetched++
		}
	} else {
		l.evictions++
		l.evictedAge = now - int64(h.used)
		if h.expires != 0 {
			l.evictedNonzero++
		}
		if unfetched {
			l.evictedUnfetched++
		}
	}
	s.unlink(r)
}

// emptyPage evicts whatever is in one page, which so goes back to the pool: the page of the least recently used item of the class.
func (s *shard) emptyPage(class uint8, now int64) bool {
	r := s.lists[class].back
	for range evictReach {
		if r == 0 {
			return false
		}
		if p := pageOf(r); s.evictable(p) {
			s.evictPage(p, now)
			return true
		}
		r = s.arena.header(r).prev
	}
	return false
}

// ownerIn returns the item that has chunk i of a page, 0 if the chunk is free.
func (s *shard) ownerIn(p, i uint32) ref {
	return s.arena.tail(ref(p)*PageBytes + ref(i*classes[s.arena.pages[p].class])).owner
}

// evictable reports whether nobody uses an item of a page at this moment.
func (s *shard) evictable(p uint32) bool {
	for i := range uint32(s.arena.pages[p].cut) {
		if r := s.ownerIn(p, i); r != 0 {
			if h := s.arena.header(r); h.marks&isLinked == 0 || h.pins > 0 {
				return false
			}
		}
	}
	return true
}

// evictPage evicts all items that have a chunk in a page. With the last of them the page goes back to the pool, and may at once belong
// to another shard: by then nothing of it is looked at any more.
func (s *shard) evictPage(p uint32, now int64) {
	left := int(s.arena.pages[p].live)
	for i := uint32(0); left > 0; i++ {
		if r := s.ownerIn(p, i); r != 0 {
			left -= s.chunksIn(r, p)
			s.evict(r, now)
		}
	}
}

// chunksIn counts the chunks that an item has in a page.
func (s *shard) chunksIn(r ref, p uint32) (n int) {
	if pageOf(r) == p {
		n++
	}
	for next := s.arena.header(r).more; next != 0; next = s.arena.tail(next).more {
		if pageOf(next) == p {
			n++
		}
	}
	return n
}

// emptyElsewhere makes another shard give up a page. Its lock is only tried: two shards that want a page of each other must not
// wait for each other.
func (s *shard) emptyElsewhere(now int64) bool {
	shards := s.cache.shards
	for i := 1; i < len(shards); i++ {
		other := &shards[(int(s.id)+i)%len(shards)]
		if !other.mu.TryLock() {
			continue
		}
		ok := other.emptyPage(other.oldest(), now)
		other.mu.Unlock()
		if ok {
			return true
		}
	}
	return false
}
