//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"spillway/internal/memproto"
)

// task is one command on its way through the workers.
type task struct {
	cmd       *memproto.Command
	kind      kind
	large     bool // it goes through the memory section
	submitted bool // the workers have it, or have had it

	gone atomic.Bool // nobody waits for the answer any more

	hits    []hit
	arena   []byte // of small values, and the answer to a scan
	result  memproto.Result
	version uint64
	err     error
}

// hit is an item that a read found. Its value is in the arena or pinned.
type hit struct {
	header
	key    []byte
	size   int
	at     int // in the arena
	token  uint64
	value  []byte // while it is pinned; nil otherwise
	pinned bool
}

const (
	// maxReply bounds the values that one get asks for together. Each is in memory until it has been sent.
	maxReply = maxItem
	// maxArena is the size up to which a task keeps its memory.
	maxArena = 64 << 10
)

func (b *Backend) newTask(k kind, cmd *memproto.Command) *task {
	t := b.tasks.Get().(*task)
	t.kind, t.cmd = k, cmd
	return t
}

// end gives back what a task still holds, and keeps it for another command.
func (b *Backend) end(t *task) {
	b.letGo(t)
	clear(t.hits)
	hits, arena := t.hits[:0], t.arena[:0]
	if cap(hits) > maxArena/64 {
		hits = nil
	}
	if cap(arena) > maxArena {
		arena = nil
	}
	*t = task{hits: hits, arena: arena}
	b.tasks.Put(t)
}

// letGo gives back the values that t has pinned.
func (b *Backend) letGo(t *task) {
	for i := range t.hits {
		if h := &t.hits[i]; h.pinned {
			h.pinned, h.value = false, nil
			b.pins.Unpin(h.token)
		}
	}
}

// perform does a task. One that panics fails alone; what it had pinned is given back.
func (b *Backend) perform(t *task, record []byte) (_ []byte) {
	defer func() {
		if p := recover(); p != nil {
			b.letGo(t)
			b.counts.panics.Add(1)
			t.hits, t.err = t.hits[:0], fmt.Errorf("internal error, please report it: %v", p)
		}
	}()
	now := time.Now().Unix()
	switch t.kind {
	case kindRead:
		t.err = b.read(t, now)
	case kindScan:
		t.err = b.scan(t, now)
	case kindWrite:
		record, t.err = b.put(t, now, record)
	case kindDelete:
		t.result, t.err = b.store.remove(t.cmd.Key, t.cmd.CAS, t.cmd.HasCAS, now)
	}
	if during := b.during.Load(); during != nil {
		(*during)(t)
	}
	return record
}

// read finds the items that a get asks for.
func (b *Backend) read(t *task, now int64) error {
	total := 0
	for key := range keysOf(t.cmd) {
		it, found, err := b.store.find(b.store.reading(key), key)
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if !found {
			continue
		}
		if it.expired(now) {
			b.store.release(&it)
			if err := b.store.bury(key, now); err != nil {
				return err
			}
			continue
		}
		if total += len(it.value); total > maxReply {
			b.store.release(&it)
			return fmt.Errorf("the values of these keys are more than %d bytes together: ask for fewer at a time", maxReply)
		}
		b.keep(t, key, &it)
	}
	return nil
}

// keep makes a hit of an item, whose value is copied, pinned, or only read through.
func (b *Backend) keep(t *task, key []byte, it *item) {
	defer b.store.release(it)
	t.hits = append(t.hits, hit{header: it.header, key: key, size: len(it.value), at: len(t.arena)})
	h := &t.hits[len(t.hits)-1]
	switch wanted := t.cmd.WantValue || t.cmd.Verb != memproto.MetaGet; {
	case !wanted:
	case b.config.HeaderOnly:
		b.readThrough(it.value)
	case h.size < memproto.CopyBytes:
		t.arena = append(t.arena, it.value...)
		b.moved.Add(uint64(h.size))
	default:
		b.moved.Add(uint64(h.size))
		h.token, h.value, h.pinned = b.pins.hold(it.pin), it.value, true
		it.pin = nil // it is given back by its token
	}
}

func (b *Backend) scan(t *task, now int64) error {
	q, err := parseScan(t.cmd.Key)
	if err != nil {
		return err
	}
	answer, items, moved, err := b.store.walk(&q, now, t.arena[:0])
	t.arena = answer
	b.counts.scans.Add(1)
	b.counts.scanned.Add(uint64(items))
	b.moved.Add(uint64(moved))
	return err
}

func (b *Backend) put(t *task, now int64, record []byte) (_ []byte, err error) {
	c := t.cmd
	w := change{
		key: c.Key, value: c.Value, flags: c.ClientFlags, expires: expiry(now, c.Exptime), mode: memproto.ModeSet, cas: c.CAS, versioned: c.HasCAS,
	}
	switch {
	case c.Verb == memproto.Add:
		w.mode = memproto.ModeAdd
	case c.Verb == memproto.Replace:
		w.mode = memproto.ModeReplace
	case c.Verb == memproto.MetaSet:
		w.mode = c.Mode
	}
	t.result, t.version, record, err = b.store.put(&w, now, record)
	b.moved.Add(uint64(len(c.Value)))
	return record, err
}

// fromMemory answers a get of one small value if that takes nothing but memory. It runs on the event loop.
func (b *Backend) fromMemory(cmd *memproto.Command, w *memproto.Writer) (done bool, err error) {
	n := 0
	for key := range keysOf(cmd) {
		if n++; n > 1 || b.store.large.size(key) > 0 {
			return false, nil
		}
	}
	it, found, err := b.store.find(b.quick, cmd.Key)
	switch {
	case err != nil && incomplete(err):
		return false, nil
	case err != nil:
		b.counts.failed.Add(1)
		return true, fmt.Errorf("reading: %w", err)
	case !found:
		b.count(cmd, 0)
		return true, nil
	}
	defer b.store.release(&it)
	now := time.Now().Unix()
	if it.expired(now) {
		return false, nil // deleting it is for the workers
	}
	if b.config.HeaderOnly {
		b.readThrough(it.value)
	} else {
		b.moved.Add(uint64(len(it.value)))
	}
	answer := itemOf(&it.header, cmd.Key, cmd, now)
	answer.Size = len(it.value)
	b.counts.memory.Add(1)
	b.count(cmd, 1)
	w.Hit(cmd, answer)
	if answer.Size > 0 {
		if w.Wants(cmd) {
			w.Piece(cmd, it.value, false)
		}
		w.EndHit(cmd)
	}
	return true, nil
}

// itemOf says of an item what a reply needs, apart from its value.
func itemOf(h *header, key []byte, cmd *memproto.Command, now int64) memproto.Item {
	return memproto.Item{Key: key, Flags: h.flags, CAS: h.version, TTL: h.ttl(now), BinaryKey: cmd.BinaryKey}
}

// count takes note of a read of as many keys as cmd has, some of which were hits.
func (b *Backend) count(cmd *memproto.Command, hits int) {
	n := 0
	for range keysOf(cmd) {
		n++
	}
	b.counts.gets.Add(uint64(n))
	b.counts.hits.Add(uint64(hits))
}

// reply writes the outcome of a task.
func (b *Backend) reply(t *task, cmd *memproto.Command, w *memproto.Writer) error {
	w.HeaderOnly = b.config.HeaderOnly
	if t.err != nil {
		b.counts.failed.Add(1)
		return t.err
	}
	switch t.kind {
	case kindRead:
		b.count(cmd, len(t.hits))
		if t.large {
			b.counts.large.Add(1)
		}
		b.replyHits(t, cmd, w)
	case kindScan:
		w.HeaderOnly = false // the answer is no value that the store keeps
		w.Hit(cmd, memproto.Item{Key: cmd.Key, BinaryKey: cmd.BinaryKey, Value: t.arena})
		if len(t.arena) >= memproto.CopyBytes {
			t.arena = nil // the reply refers to it
		}
	case kindWrite:
		b.counts.sets.Add(1)
		w.Result(t.result, t.version)
	case kindDelete:
		b.counts.deleted(t.result)
		w.Result(t.result, 0)
	}
	return nil
}

func (b *Backend) replyHits(t *task, cmd *memproto.Command, w *memproto.Writer) {
	now := time.Now().Unix()
	for i := range t.hits {
		h := &t.hits[i]
		found := itemOf(&h.header, h.key, cmd, now)
		found.Size = h.size
		w.Hit(cmd, found)
		if h.size == 0 {
			continue
		}
		switch {
		case h.pinned:
			w.Piece(cmd, h.value, true)
			w.Hold(&b.pins, h.token)
			h.pinned, h.value = false, nil // the reply gives it back
		case w.Wants(cmd):
			w.Piece(cmd, t.arena[h.at:h.at+h.size], false)
		}
		w.EndHit(cmd)
	}
}

// sliceBytes is what is read through before it is accounted for: whoever looks every few microseconds sees a megabyte move, and not all
// of it at its end.
const sliceBytes = 16 << 10

// readThrough has a value cross the memory bus as it would when it were sent.
func (b *Backend) readThrough(v []byte) {
	var sum uint64
	for len(v) > 0 {
		piece := v[:min(sliceBytes, len(v))]
		sum += touchLines(piece)
		b.moved.Add(uint64(len(piece)))
		v = v[len(piece):]
	}
	runtime.KeepAlive(sum)
}

// touchLines loads a byte of every cache line of v.
//
//go:noinline
func touchLines(v []byte) (sum uint64) {
	const line = 64
	for i := 0; i < len(v); i += line {
		sum += uint64(v[i])
	}
	return sum
}
