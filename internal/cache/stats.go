//go:build linux

package cache

import "math/bits"

// Stats are counts over all shards.
type Stats struct {
	Items    int64 // stored now, the expired but not yet noticed included
	Bytes    int64 // of them, headers and keys included
	Total    int64 // items ever stored
	Pinned   int64 // items that somebody has pinned
	Pages    int64 // bytes of pages in use
	Pool     int64 // pages that are not
	Table    int64 // bytes of the index
	Power    int   // logarithm of the number of its buckets
	Growing  bool  // a part of the index is being moved to a larger table
	Counters [MaxCounters]uint64
	ClassStats
}

// ClassStats are counts of one size class, or of all.
type ClassStats struct {
	Evictions        uint64 // items evicted before they expired
	EvictedNonzero   uint64 // of them, with a time of expiry
	EvictedUnfetched uint64 // of them, never asked for
	EvictedAge       int64  // seconds since the last use of the one evicted last
	Reclaimed        uint64 // expired or flushed items whose room was used again
	ExpiredUnfetched uint64 // of them, never asked for
	NoMemory         uint64 // times that no room could be made
}

// Class is what there is of one size class.
type Class struct {
	Number  int // from 1
	Chunk   int // bytes of a chunk
	Pages   int64
	PerPage int   // chunks
	Used    int64 // chunks
	Items   int64 // whose first chunk is of this class
	Bytes   int64 // of them
	Age     int64 // seconds since the least recently used of them was used
	ClassStats
}

func (s *ClassStats) add(l *list) {
	s.Evictions += l.evictions
	s.EvictedNonzero += l.evictedNonzero
	s.EvictedUnfetched += l.evictedUnfetched
	s.EvictedAge = max(s.EvictedAge, l.evictedAge)
	s.Reclaimed += l.reclaimed
	s.ExpiredUnfetched += l.expiredUnfetched
	s.NoMemory += l.noMemory
}

// Stats adds up the shards, one after the other, while the others go on.
func (c *Cache) Stats() Stats {
	var s Stats
	buckets := 0
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		s.Items += sh.items
		s.Bytes += sh.bytes
		s.Total += sh.total
		s.Pinned += sh.pinned
		for n, v := range sh.counts {
			s.Counters[n] += v
		}
		for n := range sh.lists {
			s.ClassStats.add(&sh.lists[n])
		}
		buckets += len(sh.index.table)
		s.Table += int64(len(sh.index.table)+len(sh.index.old)) * refBytes
		s.Growing = s.Growing || sh.index.old != nil
		sh.mu.Unlock()
	}
	s.Power = bits.Len(uint(buckets)) - 1
	taken, pool := c.arena.used()
	s.Pages, s.Pool = taken*PageBytes, pool
	return s
}

// Classes returns the size classes that have pages, or had.
func (c *Cache) Classes(now int64) []Class {
	all := make([]Class, len(classes))
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		for n := range sh.lists {
			l, to := &sh.lists[n], &all[n]
			to.Pages += int64(l.pages)
			to.Items += l.items
			to.Bytes += l.bytes
			if l.back != 0 {
				to.Age = max(to.Age, now-int64(sh.arena.header(l.back).used))
			}
			to.ClassStats.add(l)
			to.Used += int64(l.pages)*int64(PageBytes/classes[n]) - sh.vacant(l)
		}
		sh.mu.Unlock()
	}
	var some []Class
	for n := range all {
		all[n].Number, all[n].Chunk, all[n].PerPage = n+1, int(classes[n]), int(PageBytes/classes[n])
		if all[n].Pages > 0 || all[n].Evictions > 0 || all[n].Reclaimed > 0 {
			some = append(some, all[n])
		}
	}
	return some
}

// vacant counts the chunks of a class that are free. Only pages in the list of those with room have any.
func (s *shard) vacant(l *list) (n int64) {
	for p := l.roomy; p != 0; p = s.arena.pages[p].next {
		pg := &s.arena.pages[p]
		n += int64(PageBytes/classes[pg.class]) - int64(pg.live)
	}
	return n
}

// ResetCounters sets the counts that only grow back to 0.
func (c *Cache) ResetCounters() {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		sh.total, sh.counts = 0, [MaxCounters]uint64{}
		for n := range sh.lists {
			l := &sh.lists[n]
			l.evictions, l.reclaimed, l.noMemory, l.evictedUnfetched, l.expiredUnfetched, l.evictedNonzero, l.evictedAge = 0, 0, 0, 0, 0, 0, 0
		}
		sh.mu.Unlock()
	}
}
