//go:build linux

package memcached

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"spillway/internal/memproto"
)

const (
	// shards bound the waiting for one another of the loops that use a Store.
	shards = 64
	// mapBytes is about what an entry of a Go map from string to pointer takes, free places included.
	mapBytes = 40
	// overhead is what an item takes beside key and value.
	overhead = int64(unsafe.Sizeof(item{})) + mapBytes
	// relative is the longest exptime, in seconds, that counts from now. Above it, it is Unix time.
	relative = 60 * 60 * 24 * 30
)

// ErrNoMemory is returned for an item that does not fit even when everything else has been evicted.
var ErrNoMemory = errors.New("out of memory storing object")

// Store is a cache: keys with values, up to a bound of memory. Its methods may be called from several goroutines at once.
//
// Values are never changed in place; a reply may refer to one after it has been replaced or evicted.
type Store struct {
	limit   int64
	used    atomic.Int64 // bytes; never above limit
	cas     atomic.Uint64
	seed    maphash.Seed
	now     atomic.Int64 // Unix time, with the precision of a second that memcached has
	stop    chan struct{}
	ticking sync.WaitGroup
	shard   [shards]shard
}

// shard is a part of the keys with its own lock and its own order of use.
type shard struct {
	mu struct {
		sync.Mutex
		items  map[string]*item
		lru    item // sentinel: next is the most recently used, prev the least
		counts Counts
	}
	_ [64]byte // so that the locks of two shards do not share a cache line
}

// item is one key with its value.
type item struct {
	prev, next *item
	key        string
	value      []byte
	cas        uint64
	exptime    int64 // Unix time; 0 for never
	accessed   int64 // Unix time
	flags      uint32
	fetched    bool
	binary     bool
}

func (it *item) bytes() int64 { return overhead + int64(len(it.key)) + int64(cap(it.value)) }

// Counts are what a shard counts, in memcached's meaning.
type Counts struct {
	CmdGet, CmdSet, CmdTouch                     uint64
	GetHits, GetMisses, GetExpired               uint64
	DeleteHits, DeleteMisses                     uint64
	TouchHits, TouchMisses                       uint64
	CASHits, CASMisses, CASBadval                uint64
	TotalItems, Evictions, Reclaimed, StoreLarge uint64
}

func newStore(memory int64) *Store {
	s := &Store{limit: memory, seed: maphash.MakeSeed()}
	s.now.Store(time.Now().Unix())
	for i := range s.shard {
		m := &s.shard[i].mu
		m.items = make(map[string]*item)
		m.lru.prev, m.lru.next = &m.lru, &m.lru
	}
	return s
}

// startClock keeps now up to date until stopClock.
func (s *Store) startClock() {
	s.stop = make(chan struct{})
	s.ticking.Go(func() {
		ticker := time.NewTicker(time.Second / 4) // so that a second is late by at most a quarter
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case t := <-ticker.C:
				s.now.Store(t.Unix())
			}
		}
	})
}

func (s *Store) stopClock() {
	close(s.stop)
	s.ticking.Wait()
}

func (s *Store) home(key []byte) *shard { return &s.shard[maphash.Bytes(s.seed, key)%shards] }

// Access says what a Get does beside looking.
type Access struct {
	NoUpdate bool  // do not count as use
	Touch    bool  // set a new exptime
	Exptime  int32 // as in memproto.Command
}

// Get looks a key up.
func (s *Store) Get(key []byte, a Access) (memproto.Item, bool) {
	now := s.now.Load()
	sh := s.home(key)
	m := &sh.mu
	m.Lock()
	defer m.Unlock()
	m.counts.CmdGet++
	if a.Touch {
		m.counts.CmdTouch++
	}
	it := m.items[string(key)]
	if it != nil && it.expired(now) {
		s.drop(sh, it)
		m.counts.GetExpired++
		it = nil
	}
	if it == nil {
		m.counts.GetMisses++
		if a.Touch {
			m.counts.TouchMisses++
		}
		return memproto.Item{}, false
	}
	m.counts.GetHits++
	found := memproto.Item{
		Key: key, Value: it.value, Flags: it.flags, CAS: it.cas, OldTTL: it.ttl(now), Idle: now - it.accessed, Fetched: it.fetched,
		BinaryKey: it.binary,
	}
	if a.Touch {
		m.counts.TouchHits++
		it.exptime = expiry(now, a.Exptime)
	}
	found.TTL = it.ttl(now)
	if !a.NoUpdate {
		it.fetched, it.accessed = true, now
		it.unlink()
		it.linkAfter(&m.lru)
	}
	return found, true
}

// Entry is what Set stores.
type Entry struct {
	Key, Value []byte
	Owned      bool // Value may be kept; otherwise it is copied
	Flags      uint32
	Exptime    int32 // as in memproto.Command
	BinaryKey  bool
	CAS        uint64
	HasCAS     bool // store only over an item with this CAS number
}

// Set stores an entry. It returns memproto.Stored, or for an entry with CAS memproto.Exists or NotFound, and the item's new number.
func (s *Store) Set(e Entry) (memproto.Result, uint64, error) {
	now := s.now.Load()
	value := e.Value
	if !e.Owned {
		value = append(make([]byte, 0, len(e.Value)), e.Value...)
	}
	it := &item{key: string(e.Key), value: value, flags: e.Flags, exptime: expiry(now, e.Exptime), accessed: now, binary: e.BinaryKey}
	need := it.bytes()
	if need > s.limit {
		s.Refuse(e.Key)
		return memproto.Pending, 0, ErrNoMemory
	}
	sh := s.home(e.Key)
	m := &sh.mu
	m.Lock()
	m.counts.CmdSet++
	old := m.items[string(e.Key)]
	if old != nil && old.expired(now) {
		s.drop(sh, old)
		old = nil
	}
	if e.HasCAS {
		switch {
		case old == nil:
			m.counts.CASMisses++
			m.Unlock()
			return memproto.NotFound, 0, nil
		case old.cas != e.CAS:
			m.counts.CASBadval++
			m.Unlock()
			return memproto.Exists, 0, nil
		}
		m.counts.CASHits++
	}
	for {
		// The old value goes first. Replacing an item by one of its size must not cost a third one its place.
		if old != nil {
			s.drop(sh, old)
		}
		if s.reserve(sh, now, need) {
			break
		}
		m.Unlock()
		s.evictElsewhere(sh, now)
		m.Lock()
		if old = m.items[string(e.Key)]; old != nil && e.HasCAS { // somebody else was faster
			m.Unlock()
			return memproto.Exists, 0, nil
		}
	}
	it.cas = s.cas.Add(1)
	m.items[it.key] = it
	it.linkAfter(&m.lru)
	m.counts.TotalItems++
	m.Unlock()
	return memproto.Stored, it.cas, nil
}

// Delete removes a key. It returns memproto.Done, NotFound, or Exists if cas was asked for and is not the item's.
func (s *Store) Delete(key []byte, cas uint64, hasCAS bool) memproto.Result {
	sh := s.home(key)
	m := &sh.mu
	m.Lock()
	defer m.Unlock()
	it := m.items[string(key)]
	switch {
	case it != nil && it.expired(s.now.Load()):
		s.drop(sh, it)
		fallthrough
	case it == nil:
		m.counts.DeleteMisses++
		return memproto.NotFound
	case hasCAS && it.cas != cas:
		return memproto.Exists
	}
	s.drop(sh, it)
	m.counts.DeleteHits++
	return memproto.Done
}

// Refuse takes note that an item was too large to be stored. An older value of its key goes: the client meant to replace it, and must
// not find it again.
func (s *Store) Refuse(key []byte) {
	sh := s.home(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.counts.CmdSet++
	sh.mu.counts.StoreLarge++
	if it := sh.mu.items[string(key)]; it != nil {
		s.drop(sh, it)
	}
}

// expiry turns an exptime as clients give it into Unix time, 0 for never.
func expiry(now int64, exptime int32) int64 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return 1 // long ago
	case exptime <= relative:
		return now + int64(exptime)
	}
	return int64(exptime)
}

func (it *item) expired(now int64) bool { return it.exptime != 0 && it.exptime <= now }

// ttl returns how many seconds it has left, -1 for no end.
func (it *item) ttl(now int64) int64 {
	if it.exptime == 0 {
		return -1
	}
	return max(it.exptime-now, 0)
}
