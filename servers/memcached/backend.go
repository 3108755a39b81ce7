//go:build linux

// Package memcached is an in-memory store that speaks memcached: the Backend of `refserver memcached`.
//
// Backend knows the commands; package cache has keys, values and memory.
package memcached

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/cache"
	"spillway/internal/memproto"
	"spillway/servers"
)

// Config says how much a Backend holds and how it answers.
type Config struct {
	Memory     int64 // bytes of all items together, keys and overhead included; beyond it the least recently used go
	MaxItem    int   // bytes of the largest item, counted as memcached counts; at most half of Memory
	NoEvict    bool  // refuse to store when Memory is full
	HeaderOnly bool  // read a value through, but answer a hit without it

	// Of a Sectioned server.
	Large      int  // a read of a value of this size and more goes through the memory section; 0 for none
	LockQueues bool // commands queue for the lock of their item's shard where the overload control sees them
}

// DefaultLarge is the size from which a value is large: as much as takes a core a few tens of microseconds to read, and a tenth of the
// large values in the experiments that the section is from.
const DefaultLarge = 100_000

// DefaultConfig is memcached's: 64 MiB, items of 1 MiB, full replies.
func DefaultConfig() Config { return Config{Memory: 64 << 20, MaxItem: 1 << 20, Large: DefaultLarge} }

// Check says what is wrong with c, nil if nothing is.
func (c Config) Check() error {
	switch {
	case c.Memory < cache.MinMemory:
		return fmt.Errorf("%d bytes of memory: at least 1 MiB is needed", c.Memory)
	case c.MaxItem < 1<<10 || c.MaxItem > 1<<30:
		return fmt.Errorf("an item size limit of %d bytes: it must be from 1 KiB to 1 GiB", c.MaxItem)
	case int64(c.MaxItem) > c.Memory/2:
		return fmt.Errorf("an item size limit of %d bytes: it must be at most half of the memory, which is %d; give more memory", c.MaxItem, c.Memory)
	case c.Large != 0 && c.Large < memproto.CopyBytes:
		return fmt.Errorf("reads of %d bytes count as large: smaller ones than %d do not reach memory; give more, or 0 for none", c.Large, memproto.CopyBytes)
	}
	return nil
}

const (
	// relative is the longest exptime, in seconds, that counts from now. Above it, it is Unix time.
	relative = 60 * 60 * 24 * 30
	// longAgo is when an item expires that is to be gone at once.
	longAgo = 1
	// copyBytes is up to which size a value is written while its shard is locked. Larger ones are written before they are visible.
	copyBytes = 16 << 10
)

// Backend executes commands on a cache.
type Backend struct {
	config  Config
	cache   *cache.Cache
	now     atomic.Int64 // Unix time, with the precision of a second that memcached has
	flushAt atomic.Int64 // the second at which everything is to become invalid; 0 for none
	flushes atomic.Uint64
	moved   atomic.Uint64 // bytes, over the memory bus
	began   int64
	stop    chan struct{}
	ticking sync.WaitGroup
}

var _ servers.Backend = (*Backend)(nil)

// New returns a Backend with an empty store. Close ends it.
func New(c Config) (*Backend, error) {
	b, err := newBackend(c)
	if err != nil {
		return nil, fmt.Errorf("memcached: %w", err)
	}
	b.startClock()
	return b, nil
}

// newBackend returns a Backend whose clock stands.
func newBackend(c Config) (*Backend, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	// Items are a little larger here than memcached counts them. What is too large is decided as memcached would, before that.
	store, err := cache.New(cache.Config{Memory: c.Memory, MaxItem: int64(c.MaxItem) + cache.Overhead, NoEvict: c.NoEvict})
	if err != nil {
		return nil, err
	}
	b := &Backend{config: c, cache: store, began: time.Now().Unix()}
	b.now.Store(b.began)
	return b, nil
}

// startClock keeps now up to date until Close.
func (b *Backend) startClock() {
	b.stop = make(chan struct{})
	b.ticking.Go(func() {
		ticker := time.NewTicker(time.Second / 4) // so that a second is late by at most a quarter
		defer ticker.Stop()
		for {
			select {
			case <-b.stop:
				return
			case t := <-ticker.C:
				b.setTime(t.Unix())
			}
		}
	})
}

func (b *Backend) setTime(now int64) {
	b.now.Store(now)
	if at := b.flushAt.Load(); at != 0 && at <= now && b.flushAt.CompareAndSwap(at, 0) {
		b.cache.Flush()
	}
}

// Close stops the clock and gives the memory back.
func (b *Backend) Close() error {
	if b.stop != nil {
		close(b.stop)
		b.ticking.Wait()
	}
	return b.cache.Close()
}

// Do executes a command.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	w.HeaderOnly = b.config.HeaderOnly
	now := b.now.Load()
	switch v := cmd.Verb; {
	case v == memproto.MetaGet:
		b.metaGet(cmd, w, now)
	case v.Retrieval():
		b.get(cmd, w, now)
	case v.Storage():
		b.store(cmd, w, now)
	case v == memproto.Delete || v == memproto.MetaDelete:
		b.delete(cmd, w, now)
	case v == memproto.Incr || v == memproto.Decr || v == memproto.MetaArithmetic:
		b.arithmetic(cmd, w, now)
	case v == memproto.Touch:
		b.touch(cmd, w, now)
	case v == memproto.FlushAll:
		b.flush(cmd, w, now)
	case v == memproto.MetaDebug:
		b.debug(cmd, w, now)
	default:
		return errors.New("command " + v.String() + " is not for the store")
	}
	return nil
}

// expiry turns an exptime as clients give it into Unix time, 0 for never.
func expiry(now int64, exptime int32) int64 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return longAgo
	case exptime <= relative:
		return now + int64(exptime)
	}
	return int64(exptime)
}

// ttl returns how many seconds an item has left, -1 for no end.
func ttl(it cache.Item, now int64) int64 {
	at := it.Expires()
	if at == 0 {
		return -1
	}
	return max(at-now, 0)
}

// flush makes everything invalid, now or at a time to come. Without a precision finer than a second, what is stored in the second of
// that time may go as well.
func (b *Backend) flush(cmd *memproto.Command, w *memproto.Writer, now int64) {
	b.flushes.Add(1)
	w.Result(memproto.OK, 0)
	if !cmd.HasTTL || cmd.Exptime <= 0 {
		b.flushAt.Store(0)
		b.cache.Flush()
		return
	}
	switch at := expiry(now, cmd.Exptime); {
	case at <= b.began: // nothing is as old as that
		b.flushAt.Store(0)
	case at <= now:
		b.flushAt.Store(0)
		b.cache.Flush()
	default:
		b.flushAt.Store(at)
	}
}
