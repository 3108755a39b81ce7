//go:build linux

package cache

// allocate returns an unlinked item with room for key and size bytes of value, the key written.
func (s *shard) allocate(key []byte, size int, now int64) (ref, error) {
	need := headerBytes + len(key) + size
	first, err := s.chunk(classOf(min(need, PageBytes)), now)
	if err != nil {
		return 0, err
	}
	h := s.arena.header(first)
	*h = header{owner: first, size: uint32(size), keyLen: uint8(len(key)), shard: s.id}
	copy(s.arena.key(first), key)
	link := &h.more
	for need -= PageBytes; need > 0; need -= PageBytes - tailBytes {
		// Making room cannot touch what has been set up so far: an item that is not linked is not evicted.
		r, err := s.chunk(classOf(min(need+tailBytes, PageBytes)), now)
		if err != nil {
			s.free(first)
			return 0, err
		}
		*s.arena.tail(r) = tail{owner: first}
		*link = r
		link = &s.arena.tail(r).more
	}
	return first, nil
}

// free gives back the chunks of an unlinked item.
func (s *shard) free(r ref) {
	next := s.arena.header(r).more
	s.freeChunk(r)
	for next != 0 {
		r, next = next, s.arena.tail(next).more
		s.freeChunk(r)
	}
}

// chunk returns a chunk of a class: from a page with room, from a new page, or by evicting.
func (s *shard) chunk(class uint8, now int64) (ref, error) {
	l := &s.lists[class]
	// Each round but the last frees a chunk of the class or a page. Another shard may be quicker to take the page, hence the rounds.
	for range 16 {
		if p := l.roomy; p != 0 {
			return s.cutChunk(p), nil
		}
		if p, ok := s.arena.take(); ok {
			s.adopt(p, class)
			continue
		}
		if s.cache.config.NoEvict {
			if s.reclaimOne(class, now) || s.emptyDeadPage(now) {
				continue
			}
			break
		}
		// Once for each page's worth of evictions it is asked whether another class has items that nobody has used for longer. Otherwise
		// a class that came late would have to live on its first page for ever.
		l.turn++
		if l.turn >= PageBytes/classes[class] {
			l.turn = 0
			if old := s.oldest(); old != class && s.older(old, class) && s.emptyPage(old, now) {
				continue
			}
		}
		if s.evictOne(class, now) || s.emptyPage(s.oldest(), now) || s.emptyElsewhere(now) {
			continue
		}
		break
	}
	l.noMemory++
	return 0, ErrNoMemory
}

// oldest returns the class with the item that has not been used for the longest time; of several, the one with the most pages.
func (s *shard) oldest() uint8 {
	best, found := 0, false
	for class := range s.lists {
		if s.lists[class].back == 0 {
			continue
		}
		a, b := uint8(class), uint8(best)
		if !found || s.older(a, b) || !s.older(b, a) && s.lists[class].pages > s.lists[best].pages {
			best, found = class, true
		}
	}
	return uint8(best)
}

// older reports whether the last item of class a has not been used for longer than that of class b. Both have one.
func (s *shard) older(a, b uint8) bool {
	x, y := s.lists[a].back, s.lists[b].back
	return x != 0 && y != 0 && s.arena.header(x).used < s.arena.header(y).used
}

// adopt makes a page of the pool one of this shard's, to be cut into chunks of a class.
func (s *shard) adopt(p uint32, class uint8) {
	s.arena.pages[p] = page{class: class}
	s.lists[class].pages++
	s.addRoomy(p)
}

func (s *shard) cutChunk(p uint32) ref {
	pg := &s.arena.pages[p]
	size := classes[pg.class]
	r := pg.free
	if r != 0 {
		pg.free = s.arena.tail(r).more
	} else {
		r = ref(p)*PageBytes + ref(uint32(pg.cut)*size)
		pg.cut++
	}
	pg.live++
	if pg.free == 0 && uint32(pg.cut) == PageBytes/size {
		s.dropRoomy(p)
	}
	return r
}

func (s *shard) freeChunk(r ref) {
	p := pageOf(r)
	pg := &s.arena.pages[p]
	*s.arena.tail(r) = tail{more: pg.free}
	pg.free = r
	pg.live--
	if pg.live == 0 {
		// An empty page goes back to the pool, so that memory follows what is stored from class to class and from shard to shard.
		if pg.roomy {
			s.dropRoomy(p)
		}
		s.lists[pg.class].pages--
		s.arena.give(p)
		return
	}
	if !pg.roomy {
		s.addRoomy(p)
	}
}

func (s *shard) addRoomy(p uint32) {
	pg := &s.arena.pages[p]
	l := &s.lists[pg.class]
	pg.prev, pg.next, pg.roomy = 0, l.roomy, true
	if l.roomy != 0 {
		s.arena.pages[l.roomy].prev = p
	}
	l.roomy = p
}

func (s *shard) dropRoomy(p uint32) {
	pg := &s.arena.pages[p]
	if pg.prev != 0 {
		s.arena.pages[pg.prev].next = pg.next
	} else {
		s.lists[pg.class].roomy = pg.next
	}
	if pg.next != 0 {
		s.arena.pages[pg.next].prev = pg.prev
	}
	pg.prev, pg.next, pg.roomy = 0, 0, false
}
