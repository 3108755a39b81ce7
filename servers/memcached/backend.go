//go:build linux

// Package memcached is an in-memory store that speaks memcached: the Backend of `refserver memcached`.
//
// Backend knows the commands, Store knows keys, values, time and memory.
package memcached

import (
	"errors"
	"fmt"
	"runtime"

	"spillway/internal/memproto"
	"spillway/servers"
)

// Config says how much a Backend holds and how it answers.
type Config struct {
	Memory     int64 // bytes of all items together, keys and overhead included; beyond it the least recently used go
	MaxItem    int   // bytes of the largest item, counted as memcached counts; at most half of Memory
	HeaderOnly bool  // read a value through, but answer a hit without it
}

// DefaultConfig is memcached's: 64 MiB, items of 1 MiB, full replies.
func DefaultConfig() Config { return Config{Memory: 64 << 20, MaxItem: 1 << 20} }

// Check says what is wrong with c, nil if nothing is.
func (c Config) Check() error {
	switch {
	case c.Memory < 1<<10:
		return fmt.Errorf("%d bytes of memory: at least 1 KiB is needed", c.Memory)
	case c.MaxItem < 1<<10 || c.MaxItem > 1<<30:
		return fmt.Errorf("an item size limit of %d bytes: it must be from 1 KiB to 1 GiB", c.MaxItem)
	case int64(c.MaxItem) > c.Memory/2:
		return fmt.Errorf("an item size limit of %d bytes: it must be at most half of the memory, which is %d; give more memory", c.MaxItem, c.Memory)
	}
	return nil
}

// Backend executes commands on a Store.
type Backend struct {
	store  *Store
	header bool
}

var _ servers.Backend = (*Backend)(nil)

// New returns a Backend with an empty store. Close ends it.
func New(c Config) (*Backend, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("memcached: %w", err)
	}
	b := &Backend{store: newStore(c.Memory), header: c.HeaderOnly}
	b.store.startClock()
	return b, nil
}

// Close stops the store's clock.
func (b *Backend) Close() error {
	b.store.stopClock()
	return nil
}

// Do executes a command.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	w.HeaderOnly = b.header
	switch cmd.Verb {
	case memproto.Get, memproto.Gets:
		for key := range cmd.ItemKeys {
			if it, ok := b.store.Get(key, Access{}); ok {
				b.hit(cmd, w, it)
			}
		}
	case memproto.MetaGet:
		it, ok := b.store.Get(cmd.Key, Access{NoUpdate: cmd.NoUpdate, Touch: cmd.HasTTL, Exptime: cmd.Exptime})
		if ok {
			b.hit(cmd, w, it)
		}
	case memproto.Set, memproto.MetaSet:
		if cmd.TooLarge {
			b.store.Refuse(cmd.Key)
			w.Fail(memproto.TooLargeText)
			return nil
		}
		result, cas, err := b.store.Set(Entry{
			Key: cmd.Key, Value: cmd.Value, Owned: cmd.Owned, Flags: cmd.ClientFlags, Exptime: cmd.Exptime, BinaryKey: cmd.BinaryKey,
			CAS: cmd.CAS, HasCAS: cmd.HasCAS,
		})
		if err != nil {
			w.Fail("SERVER_ERROR " + err.Error())
			return nil
		}
		w.Result(result, cas)
	case memproto.Delete, memproto.MetaDelete:
		w.Result(b.store.Delete(cmd.Key, cmd.CAS, cmd.HasCAS), 0)
	default:
		return errors.New("command " + cmd.Verb.String() + " is not for the store")
	}
	return nil
}

func (b *Backend) hit(cmd *memproto.Command, w *memproto.Writer, it memproto.Item) {
	if b.header {
		runtime.KeepAlive(readThrough(it.Value))
	}
	w.Hit(cmd, it)
}

// readThrough loads a byte of every cache line of v, so that the value crosses the memory bus as it would when it were sent. The sum
// is returned to keep the compiler from leaving the loads out.
//
//go:noinline
func readThrough(v []byte) (sum uint64) {
	const line = 64
	for i := 0; i < len(v); i += line {
		sum += uint64(v[i])
	}
	if len(v) > 0 {
		sum += uint64(v[len(v)-1]) // a value that does not begin at a line's start reaches into one line more
	}
	return sum
}
