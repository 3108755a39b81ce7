//go:build linux

package memcached

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"spillway/internal/memproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// audit checks that a store's accounts agree with what it holds.
func (s *Store) audit(t interface{ Fatalf(string, ...any) }) {
	var held int64
	for i := range s.shard {
		m := &s.shard[i].mu
		m.Lock()
		n := 0
		for it := m.lru.next; it != &m.lru; it = it.next {
			held += it.bytes()
			if n++; m.items[it.key] != it {
				t.Fatalf("%q is in the order of use but not in the map", it.key)
			}
		}
		if n != len(m.items) {
			t.Fatalf("%d items in the order of use, %d in the map", n, len(m.items))
		}
		m.Unlock()
	}
	if used := s.used.Load(); used != held || used > s.limit {
		t.Fatalf("%d bytes are accounted for, %d held, the limit is %d", used, held, s.limit)
	}
}

// TestMemoryBound: whatever is done, the store stays within its bound, its accounts are exact, and what it returns is what was stored.
func TestMemoryBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStore(rapid.Int64Range(1<<10, 64<<10).Draw(t, "limit"))
		s.now.Store(1_000_000)
		model := map[string][]byte{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := []byte(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", strings.Repeat("k", 250)}).Draw(t, "key"))
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				value := bytes.Repeat([]byte{byte(rapid.IntRange(0, 255).Draw(t, "byte"))}, rapid.IntRange(0, 8<<10).Draw(t, "size"))
				exptime := rapid.SampledFrom([]int32{0, 0, 5, -1}).Draw(t, "exptime")
				_, _, err := s.Set(Entry{Key: key, Value: value, Owned: rapid.Bool().Draw(t, "owned"), Exptime: exptime})
				if fits := overhead+int64(len(key)+len(value)) <= s.limit; fits != (err == nil) {
					t.Fatalf("fits %v, error %v", fits, err)
				}
				delete(model, string(key))
				if err == nil && exptime == 0 {
					model[string(key)] = value
				}
			case 3:
				s.Delete(key, 0, false)
				delete(model, string(key))
			case 4:
				s.now.Add(3)
			case 5:
				s.Refuse(key)
				delete(model, string(key))
			}
			s.audit(t)
			if it, ok := s.Get(key, Access{}); ok {
				if want, stays := model[string(key)]; stays && !bytes.Equal(it.Value, want) {
					t.Fatalf("%q: another value than was stored", key)
				} else if !stays && it.TTL < 0 {
					t.Fatalf("%q is there and should not be", key)
				}
			}
		}
	})
}

func TestMemoryBoundHoldsForManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(1 << 20)
	var all sync.WaitGroup
	for id := range 4 {
		all.Go(func() {
			for i := range 2000 {
				key := []byte(fmt.Sprintf("k%d", (i*7+id)%300))
				if _, _, err := s.Set(Entry{Key: key, Value: make([]byte, i*7919%(200<<10)), Owned: true}); err != nil {
					t.Error(err)
				}
				if used := s.used.Load(); used > s.limit {
					t.Errorf("%d bytes used", used)
				}
				s.Get(key, Access{})
				if i%5 == 0 {
					s.Delete(key, 0, false)
				}
			}
		})
	}
	all.Wait()
	s.audit(t)
	if c, _ := s.Counts(); c.Evictions == 0 {
		t.Error("nothing was evicted; the test is too small")
	}
}

// TestLeastRecentlyUsedGoes: keys that are asked for survive those that are not.
func TestLeastRecentlyUsedGoes(t *testing.T) {
	t.Parallel()
	s := newStore(16 << 20) // a few hundred items a shard
	set := func(key string) {
		if _, _, err := s.Set(Entry{Key: []byte(key), Value: make([]byte, 1000), Owned: true}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		set(fmt.Sprintf("hot%d", i))
	}
	for i := range 30_000 {
		set(fmt.Sprintf("cold%d", i))
		s.Get([]byte(fmt.Sprintf("hot%d", i%100)), Access{})
	}
	for i := range 100 {
		if _, ok := s.Get([]byte(fmt.Sprintf("hot%d", i)), Access{}); !ok {
			t.Errorf("hot%d was evicted", i)
		}
	}
	if _, ok := s.Get([]byte("cold0"), Access{}); ok {
		t.Error("cold0 was not evicted")
	}
	if c, items := s.Counts(); c.TotalItems-c.Evictions != uint64(items) {
		t.Errorf("%d stored, %d evicted, %d there", c.TotalItems, c.Evictions, items)
	}
}

func TestReplacingTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	s := newStore(64 << 10)
	for i := range 1000 {
		key := []byte{byte('a' + i%2)}
		if _, _, err := s.Set(Entry{Key: key, Value: make([]byte, 31<<10), Owned: true}); err != nil {
			t.Fatal(err)
		}
	}
	if c, items := s.Counts(); c.Evictions != 0 || items != 2 {
		t.Errorf("%d evictions, %d items", c.Evictions, items)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	const now = 1_700_000_000
	for _, tc := range []struct {
		exptime int32
		last    int64 // second at which it is still there; -1 for never there, 0 for always
	}{
		{0, 0}, {1, 0 + now}, {10, now + 9}, {relative, now + relative - 1}, {relative + 1, -1}, {now, -1}, {now + 5, now + 4}, {-1, -1},
	} {
		s := newStore(1 << 20)
		s.now.Store(now)
		if _, _, err := s.Set(Entry{Key: []byte("k"), Exptime: tc.exptime}); err != nil {
			t.Fatal(err)
		}
		there := func(at int64) bool {
			s.now.Store(at)
			_, ok := s.Get([]byte("k"), Access{})
			return ok
		}
		switch {
		case tc.last == 0 && !there(now+1<<40):
			t.Errorf("exptime %d: gone", tc.exptime)
		case tc.last < 0 && there(now):
			t.Errorf("exptime %d: there", tc.exptime)
		case tc.last > 0 && (!there(tc.last) || there(tc.last+1)):
			t.Errorf("exptime %d: not from and to the right second", tc.exptime)
		}
		if tc.last != 0 {
			if c, items := s.Counts(); c.GetExpired != 1 || items != 0 || s.used.Load() != 0 {
				t.Errorf("exptime %d: %d expired, %d items, %d bytes", tc.exptime, c.GetExpired, items, s.used.Load())
			}
		}
	}
	s := newStore(1 << 20)
	s.now.Store(now)
	if _, _, err := s.Set(Entry{Key: []byte("k"), Exptime: 5}); err != nil {
		t.Fatal(err)
	}
	if it, ok := s.Get([]byte("k"), Access{Touch: true, Exptime: 100}); !ok || it.TTL != 100 {
		t.Errorf("touched: %v %v", it.TTL, ok)
	}
	s.now.Store(now + 100)
	if r := s.Delete([]byte("k"), 0, false); r != memproto.NotFound {
		t.Errorf("deleting what has expired: %v", r)
	}
}

func TestCAS(t *testing.T) {
	t.Parallel()
	s := newStore(1 << 20)
	k := []byte("k")
	set := func(cas uint64, has bool) (memproto.Result, uint64) {
		r, n, err := s.Set(Entry{Key: k, CAS: cas, HasCAS: has})
		if err != nil {
			t.Fatal(err)
		}
		return r, n
	}
	if r, _ := set(1, true); r != memproto.NotFound {
		t.Error(r)
	}
	_, first := set(0, false)
	if r, _ := set(first+1, true); r != memproto.Exists {
		t.Error(r)
	}
	r, second := set(first, true)
	if r != memproto.Stored || second <= first {
		t.Error(r, first, second)
	}
	if it, _ := s.Get(k, Access{}); it.CAS != second {
		t.Error(it.CAS, second)
	}
	if r := s.Delete(k, first, true); r != memproto.Exists {
		t.Error(r)
	}
	if r := s.Delete(k, second, true); r != memproto.Done {
		t.Error(r)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{}, {Memory: 64 << 20}, {Memory: 64 << 20, MaxItem: 33 << 20}, {Memory: 1 << 40, MaxItem: 1<<30 + 1}, {Memory: 10, MaxItem: 5}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestExecutionAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var p memproto.Parser
	var set, get, multi, del memproto.Command
	for text, c := range map[string]*memproto.Command{"set abc 0 0 3\r\nxyz\r\n": &set, "mg abc v s t h l O1\r\n": &get, "get abc x abc\r\n": &multi, "delete x\r\n": &del} {
		if _, s := p.Parse([]byte(text), c); s != memproto.Ready {
			t.Fatal(text, s)
		}
		c.Hold(nil)
	}
	set.Value = []byte("xyz")
	w := memproto.Writer{Buf: make([]byte, 0, 1024)}
	do := func(c *memproto.Command) {
		if err := b.Do(c, &w); err != nil {
			t.Fatal(err)
		}
		w.End(c, memproto.Extras{})
	}
	do(&set)
	if n := testing.AllocsPerRun(100, func() {
		w.Reset()
		do(&get)
		do(&multi)
		do(&del)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := string(w.Buf); !strings.Contains(got, "VALUE abc 0 3\r\nxyz\r\nVALUE abc") {
		t.Errorf("got %q", got)
	}
}
