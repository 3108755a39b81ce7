//go:build linux

package memcached

import (
	"strconv"

	"spillway/internal/cache"
	"spillway/internal/memproto"
)

const noMemoryText = "SERVER_ERROR out of memory storing object"

// modeOf returns what a storage command does, and whether it only does so to an item of a known version.
func modeOf(cmd *memproto.Command) (mode memproto.Mode, versioned bool) {
	switch cmd.Verb {
	case memproto.Add:
		mode = memproto.ModeAdd
	case memproto.Replace:
		mode = memproto.ModeReplace
	case memproto.Append:
		mode = memproto.ModeAppend
	case memproto.Prepend:
		mode = memproto.ModePrepend
	case memproto.MetaSet:
		mode = cmd.Mode
	default:
		mode = memproto.ModeSet
	}
	return mode, cmd.HasCAS && (mode == memproto.ModeSet || mode == memproto.ModeReplace)
}

// store executes the storage commands.
func (b *Backend) store(cmd *memproto.Command, w *memproto.Writer, now int64) {
	mode, versioned := modeOf(cmd)
	if cmd.TooLarge {
		b.refuse(cmd, w, storeTooLarge, memproto.TooLargeText, now)
		return
	}
	if mode == memproto.ModeAppend || mode == memproto.ModePrepend {
		b.concat(cmd, w, mode == memproto.ModePrepend, now)
		return
	}
	l := b.cache.Acquire(cmd.Key)
	fresh, err := l.Room(len(cmd.Value), now)
	if err != nil {
		l.Release()
		b.refuse(cmd, w, storeNoMemory, noMemoryText, now)
		return
	}
	if len(cmd.Value) > copyBytes {
		l.Release()
		fresh.Write(0, cmd.Value)
		l = b.cache.Acquire(cmd.Key)
	} else {
		fresh.Write(0, cmd.Value)
	}
	defer l.Release()
	b.account(len(cmd.Value), movedByStore)
	l.Count(cmdSet)
	fresh.SetFlags(cmd.ClientFlags)
	fresh.SetExpires(expiry(now, cmd.Exptime))
	fresh.SetBinary(cmd.BinaryKey)
	old, ok := l.Find(now)
	result := admit(l, old, ok, fresh, cmd, mode, versioned, now)
	switch {
	case result != memproto.Stored:
		l.Abandon(fresh)
		w.Result(result, 0)
		return
	case ok:
		l.Replace(old, fresh)
	default:
		l.Insert(fresh)
	}
	w.Result(result, fresh.CAS())
}

// admit decides whether an item may take the place of the old one of its key, if ok says that there is one. It may take over properties
// of it.
func admit(l cache.Locked, old cache.Item, ok bool, fresh cache.Item, cmd *memproto.Command, mode memproto.Mode, versioned bool, now int64) memproto.Result {
	switch {
	case versioned && !ok:
		l.Count(casMisses)
		return memproto.NotFound
	case versioned && cmd.CAS != 0 && old.CAS() == cmd.CAS:
		l.Count(casHits)
	case versioned && cmd.Stale && cmd.CAS != 0 && cmd.CAS < old.CAS():
		// An older version than the one that was marked as stale: better than nothing, and still stale.
		l.Count(casHits)
		fresh.SetExpires(old.Expires())
		fresh.SetStale(true)
		fresh.SetWon(old.Won())
	case versioned:
		l.Count(casBadval)
		return memproto.Exists
	case mode == memproto.ModeAdd && ok:
		l.Refresh(old, now)
		return memproto.NotStored
	case mode == memproto.ModeReplace && !ok:
		return memproto.NotStored
	}
	return memproto.Stored
}

// refuse takes note that an item could not be stored. Where it was to replace whatever there is, that goes: the client must not find
// it again.
func (b *Backend) refuse(cmd *memproto.Command, w *memproto.Writer, counter int, text string, now int64) {
	l := b.cache.Acquire(cmd.Key)
	defer l.Release()
	l.Count(counter)
	if cmd.Verb == memproto.Set || cmd.Verb == memproto.MetaSet {
		if it, ok := l.Find(now); ok {
			l.Delete(it)
		}
	}
	w.Fail(text)
}

// concat executes append and prepend. A large value is put together with the shard released, and starts over if the item has changed
// meanwhile; then somebody else has got something done.
func (b *Backend) concat(cmd *memproto.Command, w *memproto.Writer, front bool, now int64) {
	for first := true; ; first = false {
		l := b.cache.Acquire(cmd.Key)
		if first {
			l.Count(cmdSet)
		}
		old, ok := l.Find(now)
		result := memproto.NotStored
		if ok && cmd.HasCAS && cmd.CAS != 0 && cmd.CAS != old.CAS() {
			ok, result = false, memproto.Exists
		}
		if !ok || memproto.ItemBytes(len(cmd.Key), old.Size()+len(cmd.Value), old.Flags()) > b.config.MaxItem {
			l.Release()
			w.Result(result, 0)
			return
		}
		version := old.CAS()
		old.Pin() // making room must not evict what is to be copied
		fresh, err := l.Room(old.Size()+len(cmd.Value), now)
		if err != nil {
			l.Unpin(old)
			l.Release()
			w.Result(memproto.NotStored, 0)
			return
		}
		if fresh.Size() > copyBytes {
			l.Release()
			join(fresh, old, cmd.Value, front)
			l = b.cache.Acquire(cmd.Key)
		} else {
			join(fresh, old, cmd.Value, front)
		}
		same := l.Same(old, version)
		if same {
			fresh.SetFlags(old.Flags())
			fresh.SetExpires(old.Expires())
			l.Link(fresh)
			w.Result(memproto.Stored, fresh.CAS())
		} else {
			l.Abandon(fresh)
		}
		l.Unpin(old)
		l.Release()
		if same {
			return
		}
	}
}

// join writes old and b into fresh, b in front or behind.
func join(fresh, old cache.Item, b []byte, front bool) {
	at, own := 0, old.Size()
	if front {
		at, own = len(b), 0
	}
	for piece := range old.Segments {
		fresh.Write(at, piece)
		at += len(piece)
	}
	fresh.Write(own, b)
}

// delete executes delete and md.
func (b *Backend) delete(cmd *memproto.Command, w *memproto.Writer, now int64) {
	l := b.cache.Acquire(cmd.Key)
	defer l.Release()
	it, ok := l.Find(now)
	switch {
	case !ok:
		l.Count(deleteMisses)
		w.Result(memproto.NotFound, 0)
		return
	case cmd.HasCAS && it.CAS() != cmd.CAS:
		l.Count(deleteMisses)
		w.Result(memproto.Exists, 0)
		return
	case cmd.Verb == memproto.MetaDelete && cmd.Stale:
		if cmd.HasTTL {
			it.SetExpires(expiry(now, cmd.Exptime))
		}
		it.SetStale(true)
		it.SetWon(false) // the next client that asks is to recache it
		it.SetCAS(b.cache.NextCAS())
	default:
		l.Count(deleteHits)
		l.Delete(it)
	}
	w.Result(memproto.Done, 0)
}

// arithmetic executes incr, decr and ma.
func (b *Backend) arithmetic(cmd *memproto.Command, w *memproto.Writer, now int64) {
	l := b.cache.Acquire(cmd.Key)
	defer l.Release()
	down := cmd.Verb == memproto.Decr || cmd.Mode == memproto.ModeDecrement
	it, ok := l.Find(now)
	switch {
	case !ok && cmd.HasVivify:
		b.vivify(l, cmd, w, now)
		return
	case !ok:
		l.Count(missesOf(down))
		w.Result(memproto.NotFound, 0)
		if cmd.LongOpaque {
			w.Fail(memproto.OpaqueText)
		}
		return
	case it.Size() == 0:
		w.Fail(memproto.NotNumericText)
		return
	case cmd.CAS != 0 && cmd.CAS != it.CAS():
		w.Result(memproto.Exists, 0)
		if cmd.LongOpaque {
			w.Fail(memproto.OpaqueText)
		}
		return
	}
	value, ok := memproto.ParseUint64(it.First())
	if !ok || it.Size() > len(it.First()) { // so large a value is no number, or not one worth the trouble
		w.Fail(memproto.NotNumericText)
		return
	}
	switch {
	case !down:
		value += cmd.Delta
	case cmd.Delta > value:
		value = 0
	default:
		value -= cmd.Delta
	}
	l.Count(hitsOf(down))
	if it, ok = b.setNumber(l, it, value, now); !ok {
		w.Fail("SERVER_ERROR out of memory")
		return
	}
	b.answerNumber(it, cmd, w, value, false, now)
}

// setNumber gives an item another number: in its place if it is long enough and nobody reads it, with spaces to the old length.
func (b *Backend) setNumber(l cache.Locked, it cache.Item, value uint64, now int64) (cache.Item, bool) {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], value, 10)
	if len(text) <= it.Size() && !it.Pinned() {
		it.SetCAS(b.cache.NextCAS())
		rest := it.First()
		for i := copy(rest, text); i < len(rest); i++ {
			rest[i] = ' '
		}
		l.Refresh(it, now)
		return it, true
	}
	it.Pin() // making room must not evict it
	fresh, err := l.Room(len(text), now)
	if err != nil {
		l.Unpin(it)
		return it, false
	}
	fresh.Write(0, text)
	fresh.SetFlags(it.Flags())
	fresh.SetExpires(it.Expires())
	l.Link(fresh)
	l.Unpin(it)
	return fresh, true
}

// vivify makes the item that ma did not find.
func (b *Backend) vivify(l cache.Locked, cmd *memproto.Command, w *memproto.Writer, now int64) {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], cmd.Initial, 10)
	it, err := l.Room(len(text), now)
	if err != nil {
		w.Fail("SERVER_ERROR Out of memory allocating new item")
		return
	}
	it.Write(0, text)
	l.Link(it)
	b.answerNumber(it, cmd, w, cmd.Initial, true, now)
}

func (b *Backend) answerNumber(it cache.Item, cmd *memproto.Command, w *memproto.Writer, value uint64, created bool, now int64) {
	found := memproto.Item{CAS: it.CAS(), TTL: ttl(it, now), Created: created}
	for flag := range cmd.Flags {
		switch {
		case flag[0] == 'T':
			setExpires(it, expiry(now, cmd.Exptime), &found, now)
		case flag[0] == 'N' && created:
			setExpires(it, expiry(now, cmd.Vivify), &found, now)
		}
	}
	if cmd.LongOpaque {
		w.Fail(memproto.OpaqueText)
		return
	}
	w.Number(value, found)
}
