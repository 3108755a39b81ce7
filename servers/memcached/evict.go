//go:build linux

package memcached

// reserve sets need bytes aside, evicting from sh, which is locked, as long as that helps.
func (s *Store) reserve(sh *shard, now, need int64) bool {
	for {
		used := s.used.Load()
		if used+need <= s.limit {
			if s.used.CompareAndSwap(used, used+need) {
				return true
			}
			continue
		}
		if !s.evict(sh, now) {
			return false
		}
	}
}

// evict removes the least recently used item of sh, which is locked. It reports whether there was one.
func (s *Store) evict(sh *shard, now int64) bool {
	it := sh.mu.lru.prev
	if it == &sh.mu.lru {
		return false
	}
	if it.expired(now) {
		sh.mu.counts.Reclaimed++
	} else {
		sh.mu.counts.Evictions++
	}
	s.drop(sh, it)
	return true
}

// evictElsewhere evicts one item of another shard. It is called without a lock: large items can fill the memory although the shard
// of a new one is empty.
func (s *Store) evictElsewhere(not *shard, now int64) {
	start := int(s.cas.Load() % shards) // somewhere else each time, at no cost
	for i := range s.shard {
		sh := &s.shard[(start+i)%shards]
		if sh == not {
			continue
		}
		sh.mu.Lock()
		gone := s.evict(sh, now)
		sh.mu.Unlock()
		if gone {
			return
		}
	}
}

// drop removes it from sh, which is locked.
func (s *Store) drop(sh *shard, it *item) {
	delete(sh.mu.items, it.key)
	it.unlink()
	s.used.Add(-it.bytes())
}

func (it *item) unlink() {
	it.prev.next, it.next.prev = it.next, it.prev
	it.prev, it.next = nil, nil
}

func (it *item) linkAfter(p *item) {
	it.prev, it.next = p, p.next
	p.next.prev = it
	p.next = it
}
