//go:build linux

package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func newCache(t testing.TB, c Config) *Cache {
	t.Helper()
	cache, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	return cache
}

// store is Room, Write and Link in one.
func (l Locked) store(expires int64, value []byte, now int64) error {
	i, err := l.Room(len(value), now)
	if err != nil {
		return err
	}
	i.Write(0, value)
	i.SetExpires(expires)
	l.Link(i)
	return nil
}

// concat stores i with b in front or behind.
func (l Locked) concat(i Item, b []byte, front bool, now int64) error {
	i.Pin() // making room must not evict what is about to be copied
	n, err := l.Room(i.Size()+len(b), now)
	l.Unpin(i)
	if err != nil {
		return err
	}
	at, own := 0, i.Size()
	if front {
		at, own = len(b), 0
	}
	for seg := range i.Segments {
		n.Write(at, seg)
		at += len(seg)
	}
	n.Write(own, b)
	n.SetExpires(i.Expires())
	l.Link(n)
	return nil
}

func set(c *Cache, key string, value []byte, expires, now int64) error {
	l := c.Acquire([]byte(key))
	defer l.Release()
	return l.store(expires, value, now)
}

func get(c *Cache, key string, now int64) ([]byte, bool) {
	l := c.Acquire([]byte(key))
	defer l.Release()
	i, ok := l.Find(now)
	if !ok {
		return nil, false
	}
	l.Bump(i, now)
	return i.AppendTo(make([]byte, 0, i.Size())), true
}

// noise is what values are cut from: two cuts that begin elsewhere differ.
var noise = func() []byte {
	b := make([]byte, 9<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

// value is n bytes that tell where they are from.
func value(n int, salt uint32) []byte {
	at := int(salt % 4096)
	return noise[at : at+n : at+n]
}

// TestSizes: every size around the edges of classes, pages and chains comes back as it was.
func TestSizes(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 64 << 20, MaxItem: 8 << 20})
	sizes := []int{0, 1, 2, PageBytes, 2 * PageBytes, 1 << 20, 8<<20 - headerBytes - 1}
	for _, s := range classes {
		sizes = append(sizes, int(s))
	}
	for _, size := range sizes {
		for d := -headerBytes - 4; d <= 4; d += 2 {
			if size >= 1<<20 && d%22 != 0 {
				continue
			}
			n := size + d
			if n < 0 || n+headerBytes+1 > 8<<20 {
				continue
			}
			want := value(n, uint32(n))
			if err := set(c, "k", want, 0, 1); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if got, ok := get(c, "k", 1); !ok || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came back different (found: %v)", n, ok)
			}
		}
	}
	if s := c.Stats(); s.Items != 1 {
		t.Errorf("%d items under one key", s.Items)
	}
	l := c.Acquire([]byte("k"))
	if i, ok := l.Find(1); ok {
		l.Delete(i)
	}
	l.Release()
	if s := c.Stats(); s.Items != 0 || s.Bytes != 0 || s.Pages != 0 {
		t.Errorf("an empty cache has %+v", s)
	}
}

// TestModel: under random operations, with memory to spare, the cache is a map.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(Config{Memory: 32 << 20, MaxItem: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		type entry struct {
			value   []byte
			expires int64
		}
		model := map[string]entry{}
		now := int64(1)
		for n := range rapid.IntRange(1, 200).Draw(t, "operations") {
			key := fmt.Sprint("key", rapid.IntRange(0, 20).Draw(t, "key"))
			old, live := model[key]
			live = live && (old.expires == 0 || old.expires > now)
			l := c.Acquire([]byte(key))
			i, ok := l.Find(now)
			if ok != live || (ok && !bytes.Equal(i.AppendTo(nil), old.value)) {
				t.Fatalf("%s: found %v, want %v", key, ok, live)
			}
			switch op := rapid.IntRange(0, 4).Draw(t, "op"); {
			case op <= 1:
				e := entry{value(rapid.IntRange(0, 70_000).Draw(t, "size"), uint32(n)), 0}
				if rapid.Bool().Draw(t, "expires") {
					e.expires = now + int64(rapid.IntRange(0, 3).Draw(t, "in"))
				}
				if err := l.store(e.expires, e.value, now); err != nil {
					t.Fatal(err)
				}
				model[key] = e
			case op == 2 && ok:
				l.Delete(i)
				delete(model, key)
			case op == 3 && ok:
				more := value(rapid.IntRange(0, 1000).Draw(t, "more"), uint32(n))
				front := rapid.Bool().Draw(t, "front")
				if err := l.concat(i, more, front, now); err != nil {
					t.Fatal(err)
				}
				e := entry{append(bytes.Clone(old.value), more...), old.expires}
				if front {
					e.value = append(bytes.Clone(more), old.value...)
				}
				model[key] = e
			case op == 4:
				now++
			}
			l.Release()
			if rapid.IntRange(0, 40).Draw(t, "flush") == 0 {
				c.Flush()
				clear(model)
			}
		}
	})
}

// TestBound: whatever is stored, no more memory is used than was given; what is not evicted is right; what is used stays.
func TestBound(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			const memory = 8 << 20
			c := newCache(t, Config{Memory: memory, MaxItem: 2 << 20})
			rng := rand.New(rand.NewPCG(seed, 0))
			salt := map[string]uint32{}
			for n := range 6_000 {
				key := fmt.Sprint("key", rng.IntN(5000))
				size := rng.IntN(2000)
				if n%100 == 0 {
					size = rng.IntN(1 << 20)
				}
				salt[key] = rng.Uint32()
				if err := set(c, key, value(size, salt[key]), 0, int64(n)); err != nil {
					t.Fatalf("operation %d, %d bytes: %v", n, size, err)
				}
				if got, ok := get(c, key, int64(n)); !ok || !bytes.Equal(got, value(size, salt[key])) {
					t.Fatalf("operation %d: what was just stored is gone or wrong", n)
				}
				if s := c.Stats(); n%16 == 0 && (s.Pages > memory || s.Bytes > s.Pages) {
					t.Fatalf("operation %d: %+v under a bound of %d", n, s, memory)
				}
			}
			live := 0
			for key, want := range salt {
				if got, ok := get(c, key, 6_000); ok {
					live++
					if !bytes.Equal(got, value(len(got), want)) {
						t.Fatalf("%s is wrong", key)
					}
				}
			}
			audit(t, c)
			s := c.Stats()
			if int64(live) != s.Items || s.Evictions == 0 {
				t.Errorf("%d keys are found, the count is %d; %d evictions", live, s.Items, s.Evictions)
			}
			if s.Bytes < memory/2 {
				t.Errorf("only %d of %d bytes are put to use", s.Bytes, memory)
			}
		})
	}
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 4 << 20, MaxItem: 1 << 20})
	body := make([]byte, 1000)
	for now := int64(1); c.Stats().Evictions == 0; now++ {
		if err := set(c, fmt.Sprint("filler", now), body, 0, now); err != nil {
			t.Fatal(err)
		}
		if err := set(c, fmt.Sprint("second", now), body, 0, now); err != nil {
			t.Fatal(err)
		}
		if now == 1 {
			if err := set(c, "used", body, 0, now); err != nil {
				t.Fatal(err)
			}
		} else if _, ok := get(c, "used", now); !ok {
			t.Fatalf("the most recently used item was evicted at %d", now)
		}
	}
	// With one shard the victim is the oldest; keys of several shards compete only with their own.
	if _, ok := get(c, "used", 1<<30); !ok {
		t.Error("the most recently used item was evicted")
	}
}

func TestTooLargeAndNoEvict(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 2 << 20, MaxItem: 1 << 20, NoEvict: true})
	if err := set(c, "k", make([]byte, 1<<20), 0, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("header, key and a MiB in an item of a MiB: %v", err)
	}
	var err error
	n := 0
	for ; err == nil; n++ {
		err = set(c, fmt.Sprint(n), make([]byte, 100_000), 0, 1)
	}
	if !errors.Is(err, ErrNoMemory) || n < 15 || n > 21 {
		t.Errorf("item %d of 100 kB does not fit in 2 MiB: %v", n, err)
	}
	if _, ok := get(c, "0", 1); !ok {
		t.Error("the first item is gone although nothing may be evicted")
	}
	for _, bad := range []Config{{Memory: 1000, MaxItem: 1024}, {Memory: 1 << 20, MaxItem: 1}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestPin: a pinned value stays readable while its key is stored anew and memory is short, and its memory comes back after.
func TestPin(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 4 << 20, MaxItem: 2 << 20})
	want := value(500_000, 1)
	if err := set(c, "k", want, 0, 1); err != nil {
		t.Fatal(err)
	}
	l := c.Acquire([]byte("k"))
	i, ok := l.Find(1)
	if !ok {
		t.Fatal("not found")
	}
	token := i.Pin()
	l.Release()
	for n := range 100 {
		if err := set(c, "k", value(600_000, uint32(n)), 0, 1); err != nil {
			t.Fatal(err)
		}
		if err := set(c, fmt.Sprint("other", n), value(300_000, uint32(n)), 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(i.AppendTo(nil), want) {
		t.Error("a pinned value was overwritten")
	}
	before := c.Stats().Pages
	c.Unpin(token)
	if after := c.Stats().Pages; after >= before {
		t.Errorf("%d bytes of pages before unpinning, %d after", before, after)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	c := newCache(t, Config{Memory: 4 << 20, MaxItem: 1 << 20})
	var wait sync.WaitGroup
	for g := range uint64(4) {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(g, 1))
			for n := range 3000 {
				k := rng.IntN(300)
				key := fmt.Sprint("key", k)
				size := rng.IntN(3000)
				if n%50 == 0 {
					size = rng.IntN(300_000)
				}
				switch rng.IntN(3) {
				case 0:
					if err := set(c, key, value(size, uint32(k)), 0, 1); err != nil && !errors.Is(err, ErrNoMemory) {
						t.Error(err)
					}
				default:
					l := c.Acquire([]byte(key))
					i, ok := l.Find(1)
					token := uint64(0)
					if ok {
						l.Bump(i, int64(n))
						token = i.Pin()
					}
					l.Release()
					if ok {
						if got := i.AppendTo(nil); !bytes.Equal(got, value(len(got), uint32(k))) {
							t.Errorf("%s is wrong", key)
						}
						c.Unpin(token)
					}
				}
			}
		})
	}
	wait.Wait()
	audit(t, c)
	if n := c.Stats().Pinned; n != 0 {
		t.Errorf("%d items are still pinned", n)
	}
	var items, size int64
	c.ForEach(1, func(_ []byte, i Item) { items++; size += i.Bytes() })
	if s := c.Stats(); s.Items != items || s.Bytes != size {
		t.Errorf("%+v, but %d items of %d bytes are there", s, items, size)
	}
}

// TestOutsideTheHeap: many items add nothing that grows with their values to the Go heap, only the index.
func TestOutsideTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("stores many items")
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c := newCache(t, Config{Memory: 512 << 20, MaxItem: 1 << 20})
	before := heap()
	var key [8]byte
	body := make([]byte, 100)
	const items = 300_000
	for n := range uint64(items) {
		binary.BigEndian.PutUint64(key[:], n)
		l := c.Acquire(key[:])
		if err := l.store(0, body, 1); err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	s := c.Stats()
	if s.Items != items || s.Evictions != 0 {
		t.Fatalf("%+v", s)
	}
	if perItem := float64(heap()-before) / items; perItem > 24 {
		t.Errorf("%.1f bytes of Go heap an item, want at most 24 for an index of 8 to 16", perItem)
	}
	if perItem := float64(s.Pages) / items; perItem > 1.25*float64(s.Bytes)/items {
		t.Errorf("%.1f bytes of pages for an item of %.1f", perItem, float64(s.Bytes)/items)
	}
}

func TestAllocatesNothing(t *testing.T) {
	c := newCache(t, Config{Memory: 8 << 20, MaxItem: 1 << 20})
	key, body := []byte("some key"), make([]byte, 1000)
	if n := testing.AllocsPerRun(1000, func() {
		l := c.Acquire(key)
		if err := l.store(0, body, 1); err != nil {
			t.Fatal(err)
		}
		l.Release()
	}); n != 0 {
		t.Errorf("%g allocations a store", n)
	}
	dst := make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(1000, func() {
		l := c.Acquire(key)
		i, _ := l.Find(1)
		l.Bump(i, 1)
		dst = i.AppendTo(dst[:0])
		l.Release()
	}); n != 0 {
		t.Errorf("%g allocations a read", n)
	}
}
