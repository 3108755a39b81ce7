//go:build linux

package cache

import (
	"fmt"
	"testing"
)

// audit checks that everything a cache keeps books of agrees with what is there. Nothing else may use the cache.
func audit(t testing.TB, c *Cache) {
	t.Helper()
	taken := map[uint32]bool{}
	for i := range c.shards {
		s := &c.shards[i]
		for class := range s.lists {
			auditList(t, s, uint8(class))
		}
		auditIndex(t, s)
		// Every chunk in use is found from an item, and every page from a chunk.
		chunks := map[uint32]int{}
		s.index.each(func(r ref, h *header) {
			chunks[pageOf(r)]++
			for next := h.more; next != 0; next = s.arena.tail(next).more {
				if s.arena.tail(next).owner != r {
					t.Fatalf("a chunk does not know its item")
				}
				chunks[pageOf(next)]++
			}
		})
		for p, n := range chunks {
			pg := &s.arena.pages[p]
			if taken[p] || int(pg.live) != n {
				t.Fatalf("page %d has %d chunks in use, %d are counted; with another shard: %v", p, n, pg.live, taken[p])
			}
			taken[p] = true
			free := 0
			for r := pg.free; r != 0; r = s.arena.tail(r).more {
				free++
			}
			full := int(pg.cut) == int(PageBytes/classes[pg.class]) && free == 0
			if free+n != int(pg.cut) || full == pg.roomy {
				t.Fatalf("page %d: %d free, %d in use, %d cut, in the list: %v", p, free, n, pg.cut, pg.roomy)
			}
		}
	}
	if used, pool := c.arena.used(); int(used) != len(taken) || used+pool != int64(len(c.arena.pages))-1 {
		t.Fatalf("%d pages are taken and %d are not, %d are in use", used, pool, len(taken))
	}
}

func auditList(t testing.TB, s *shard, class uint8) {
	t.Helper()
	l := &s.lists[class]
	var items, size int64
	before := ref(0)
	for r := l.front; r != 0; before, r = r, s.arena.header(r).succ {
		h := s.arena.header(r)
		if h.prev != before || h.owner != r || h.marks&isLinked == 0 || h.shard != s.id || s.arena.pages[pageOf(r)].class != class {
			t.Fatalf("class %d: a wrong item in the LRU list: %+v", class, *h)
		}
		items++
		size += h.bytes()
	}
	if l.back != before || l.items != items || l.bytes != size {
		t.Fatalf("class %d: %d items of %d bytes, counted as %d of %d", class, items, size, l.items, l.bytes)
	}
}

func auditIndex(t testing.TB, s *shard) {
	t.Helper()
	keys := map[string]bool{}
	var items, size int64
	s.index.each(func(r ref, h *header) {
		key := string(s.arena.key(r))
		if keys[key] {
			t.Fatalf("%q is there twice", key)
		}
		keys[key] = true
		items++
		size += h.bytes()
		if found := s.index.find(h.hash, []byte(key)); found != r {
			t.Fatalf("%q is not found where it is", key)
		}
	})
	inLists := int64(0)
	for i := range s.lists {
		inLists += s.lists[i].items
	}
	if s.items != items || s.bytes != size || inLists != items {
		t.Fatalf("%d items of %d bytes, counted as %d of %d, %d in lists", items, size, s.items, s.bytes, inLists)
	}
}

// TestMemoryFollowsTheWorkload: when small items are followed by large ones, the large ones get the memory, and the other way round.
func TestMemoryFollowsTheWorkload(t *testing.T) {
	t.Parallel()
	const memory = 4 << 20
	c := newCache(t, Config{Memory: memory, MaxItem: 1 << 20})
	now := int64(1)
	for _, size := range []int{100, 5000, 300, 100_000, 20_000, 100} {
		n := 3 * memory / (size + headerBytes)
		for i := range n {
			if i%(n/20) == 0 {
				now++
			}
			if err := set(c, fmt.Sprintf("%d of %d", i, size), value(size, 1), 0, now); err != nil {
				t.Fatal(err)
			}
		}
		live := 0
		c.ForEach(now, func(_ []byte, i Item) {
			if i.Size() == size {
				live += size + headerBytes
			}
		})
		if live < memory*6/10 {
			t.Errorf("items of %d bytes have %d of %d bytes of memory", size, live, memory)
		}
		audit(t, c)
	}
}

func TestFlush(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 1 << 20, MaxItem: 1 << 20})
	for _, key := range []string{"a", "b"} {
		if err := set(c, key, nil, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	c.Flush()
	if err := set(c, "b", nil, 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, ok := get(c, "a", 1); ok {
		t.Error("a flushed item is found")
	}
	if _, ok := get(c, "b", 1); !ok {
		t.Error("an item stored after the flush is not found")
	}
	if err := set(c, "c", nil, 5, 1); err != nil {
		t.Fatal(err)
	}
	if _, ok := get(c, "c", 5); ok {
		t.Error("an expired item is found")
	}
	s := c.Stats()
	if s.Items != 1 || s.Total != 4 || s.Counters[CountFlushed] != 1 || s.Counters[CountExpired] != 1 {
		t.Errorf("%+v", s)
	}
	c.ResetCounters()
	if s := c.Stats(); s.Items != 1 || s.Total != 0 || s.Counters[CountFlushed] != 0 {
		t.Errorf("after a reset %+v", s)
	}
	audit(t, c)
}

func TestClasses(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 4 << 20, MaxItem: 1 << 20})
	for i := range 100 {
		if err := set(c, fmt.Sprint(i), value(10, 1), 0, 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := set(c, "large", value(100_000, 1), 0, 5); err != nil {
		t.Fatal(err)
	}
	var items, used, pages, size int64
	for _, class := range c.Classes(10) {
		items += class.Items
		used += class.Used
		pages += class.Pages
		size += class.Bytes
		if class.Items == 100 && class.Age != 7 {
			t.Errorf("%+v", class)
		}
	}
	if s := c.Stats(); items != 101 || used != 102 || pages*PageBytes != s.Pages || size != s.Bytes {
		t.Errorf("%d items in %d chunks on %d pages, %d bytes; %+v", items, used, pages, size, s)
	}
}
