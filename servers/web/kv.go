//go:build linux

package web

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"spillway/guard"
	"spillway/internal/cache"
)

// MaxKey is the length of the longest key, as memcached has it.
const MaxKey = 250

// Values is a store of values by key. Its methods are called from several goroutines at once.
type Values interface {
	// Get appends the value of a key to dst.
	Get(dst, key []byte) (value []byte, found bool)
	// Put stores a value. An error says that there is no room for it.
	Put(key, value []byte) error
	// Delete reports whether there was something to remove.
	Delete(key []byte) (found bool)
	// Close frees what the store has taken.
	Close() error
}

// Cached is Values over a cache, which evicts what has not been used for longest when its memory is full.
type Cached struct{ cache *cache.Cache }

// NewCached returns an empty store of so many bytes, with values of up to largest bytes.
func NewCached(memory int64, largest int64) (*Cached, error) {
	c, err := cache.New(cache.Config{Memory: memory, MaxItem: largest + cache.Overhead + MaxKey})
	if err != nil {
		return nil, err
	}
	return &Cached{c}, nil
}

// Get implements Values.
func (c *Cached) Get(dst, key []byte) (value []byte, found bool) {
	now := time.Now().Unix()
	l := c.cache.Acquire(key)
	defer l.Release()
	item, ok := l.Find(now)
	if !ok {
		return dst, false
	}
	l.Bump(item, now)
	return item.AppendTo(dst), true
}

// Put implements Values.
func (c *Cached) Put(key, value []byte) error {
	l := c.cache.Acquire(key)
	defer l.Release()
	item, err := l.Room(len(value), time.Now().Unix())
	if err != nil {
		return err
	}
	item.Write(0, value)
	l.Link(item)
	return nil
}

// Delete implements Values.
func (c *Cached) Delete(key []byte) (found bool) {
	l := c.cache.Acquire(key)
	defer l.Release()
	item, ok := l.Find(time.Now().Unix())
	if ok {
		l.Delete(item)
	}
	return ok
}

// Close implements Values.
func (c *Cached) Close() error { return c.cache.Close() }

// KV serves values: GET, PUT and DELETE of a path that ends in a key.
type KV struct {
	values Values
	most   int64
	moved  atomic.Uint64 // bytes of values read and written

	gets, hits, sets, deletes, deleted, noRoom atomic.Uint64

	buffers sync.Pool
}

// NewKV returns the service of a store, which it owns, for values of up to largest bytes.
func NewKV(values Values, largest int64) *KV {
	k := &KV{values: values, most: largest}
	k.buffers.New = func() any { return new([]byte) }
	return k
}

var _ Service = (*KV)(nil)

// maxKept is the size up to which a buffer is kept for another request.
const maxKept = 64 << 10

// Methods implements Service.
func (k *KV) Methods() string { return "GET, HEAD, PUT, DELETE" }

// Close frees the store.
func (k *KV) Close() error { return k.values.Close() }

// BytesMoved returns how many bytes of values have been read and written.
func (k *KV) BytesMoved() uint64 { return k.moved.Load() }

// Stats yields counts, in memcached's names where it has one.
func (k *KV) Stats(yield func(name string, value uint64) bool) {
	gets, hits, deletes, deleted := k.gets.Load(), k.hits.Load(), k.deletes.Load(), k.deleted.Load()
	_ = yield("cmd_get", gets) && yield("get_hits", hits) && yield("get_misses", gets-hits) && yield("cmd_set", k.sets.Load()) &&
		yield("delete_hits", deleted) && yield("delete_misses", deletes-deleted) && yield("store_no_memory", k.noRoom.Load()) &&
		yield("bytes_moved", k.moved.Load())
}

// Serve implements Service.
func (k *KV) Serve(w http.ResponseWriter, r *http.Request, key string, _ *guard.Ticket) {
	if key == "" || len(key) > MaxKey {
		http.Error(w, "a key has from 1 to "+strconv.Itoa(MaxKey)+" bytes", http.StatusBadRequest)
		return
	}
	buffer := k.buffers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= maxKept {
			k.buffers.Put(buffer)
		}
	}()
	switch r.Method {
	case http.MethodPut:
		k.put(w, r, []byte(key), buffer)
	case http.MethodDelete:
		k.deletes.Add(1)
		if !k.values.Delete([]byte(key)) {
			http.Error(w, "no such key", http.StatusNotFound)
			return
		}
		k.deleted.Add(1)
		w.WriteHeader(http.StatusNoContent)
	default:
		k.gets.Add(1)
		value, found := k.values.Get((*buffer)[:0], []byte(key))
		*buffer = value
		if !found {
			http.Error(w, "no such key", http.StatusNotFound)
			return
		}
		k.hits.Add(1)
		k.moved.Add(uint64(len(value)))
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(value)))
		_, _ = w.Write(value) // whoever does not take it has gone
	}
}

func (k *KV) put(w http.ResponseWriter, r *http.Request, key []byte, buffer *[]byte) {
	value, err := readAll((*buffer)[:0], r.Body)
	*buffer = value
	switch {
	case err != nil:
		refuseBody(w, err)
		return
	case int64(len(value)) > k.most:
		http.Error(w, "the value is too large", http.StatusRequestEntityTooLarge)
		return
	}
	k.sets.Add(1)
	switch err := k.values.Put(key, value); {
	case errors.Is(err, cache.ErrTooLarge):
		http.Error(w, "the value is too large", http.StatusRequestEntityTooLarge)
	case err != nil:
		k.noRoom.Add(1)
		http.Error(w, "no room for the value", http.StatusInsufficientStorage)
	default:
		k.moved.Add(uint64(len(value)))
		w.WriteHeader(http.StatusNoContent)
	}
}

// readAll appends what r has to dst.
func readAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
