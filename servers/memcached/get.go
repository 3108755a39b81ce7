//go:build linux

package memcached

import (
	"runtime"

	"spillway/internal/cache"
	"spillway/internal/memproto"
)

// get executes get, gets, gat and gats.
func (b *Backend) get(cmd *memproto.Command, w *memproto.Writer, now int64) {
	touch := cmd.Verb == memproto.Gat || cmd.Verb == memproto.Gats
	for key := range cmd.ItemKeys {
		l := b.cache.Acquire(key)
		it, ok := l.Find(now)
		countGet(l, touch, ok)
		if !ok {
			l.Release()
			continue
		}
		if touch {
			it.SetExpires(expiry(now, cmd.Exptime))
		}
		l.Bump(it, now)
		b.hit(l, it, cmd, w, &memproto.Item{Key: key, Flags: it.Flags(), CAS: it.CAS()})
	}
}

func countGet(l cache.Locked, touch, hit bool) {
	switch {
	case touch && hit:
		l.Count(cmdTouch)
		l.Count(touchHits)
	case touch:
		l.Count(cmdTouch)
		l.Count(touchMisses)
	case hit:
		l.Count(cmdGet)
		l.Count(getHits)
	default:
		l.Count(cmdGet)
		l.Count(getMisses)
	}
}

// hit answers with an item, and releases its shard. A small value is copied meanwhile. A large one is pinned and copied by nobody but the
// kernel, with the shard long released.
func (b *Backend) hit(l cache.Locked, it cache.Item, cmd *memproto.Command, w *memproto.Writer, found *memproto.Item) {
	size := it.Size()
	wanted := cmd.WantValue || cmd.Verb != memproto.MetaGet
	found.Size = size
	if !wanted {
		l.Release()
		w.Hit(cmd, *found)
		return
	}
	if size < memproto.CopyBytes {
		b.account(size, movedByRead)
		if b.config.HeaderOnly {
			runtime.KeepAlive(touchLines(it.First()))
		}
		found.Value = it.First() // which is all of it
		w.Hit(cmd, *found)
		l.Release()
		return
	}
	token := it.Pin()
	l.Release()
	w.Hit(cmd, *found)
	if b.config.HeaderOnly {
		b.readThrough(it)
		b.cache.Unpin(token)
	} else {
		b.account(size, movedByRead) // the kernel will move it, some time
		for piece := range it.Segments {
			w.Piece(cmd, piece, true)
		}
		w.Hold(b.cache, token)
	}
	w.EndHit(cmd)
}

// metaGet executes mg. Flags take effect in their order.
func (b *Backend) metaGet(cmd *memproto.Command, w *memproto.Writer, now int64) {
	l := b.cache.Acquire(cmd.Key)
	it, ok := l.Find(now)
	created := false
	if !ok && cmd.HasVivify {
		var err error
		if it, err = l.Room(0, now); err == nil {
			l.Link(it)
			ok, created = true, true
		}
	}
	if !ok {
		countGet(l, false, false)
		l.Release()
		if cmd.LongOpaque {
			w.Fail(memproto.OpaqueText)
		}
		return
	}
	found := memproto.Item{
		Key: cmd.Key, Flags: it.Flags(), CAS: it.CAS(), TTL: ttl(it, now), Idle: now - it.Used(), Fetched: it.Fetched(), BinaryKey: it.Binary(),
		Created: created, Sent: it.Won(), Stale: it.Stale(),
	}
	if cmd.HasTTL || cmd.HasVivify || cmd.HasRecache || cmd.LongOpaque {
		if !applyFlags(it, cmd, &found, now) {
			if !cmd.NoUpdate && !looksFirst(cmd) {
				l.Bump(it, now)
			}
			l.Release()
			w.Fail(memproto.OpaqueText)
			return
		}
	}
	if found.Stale && !found.Sent {
		found.Won = true
	}
	if found.Won {
		it.SetWon(true)
	}
	if !cmd.NoUpdate {
		l.Bump(it, now)
	}
	countGet(l, cmd.HasTTL, true)
	b.hit(l, it, cmd, w, &found)
}

// applyFlags does what the flags of mg say to an item. It reports whether the end was reached: like memcached it stops at an opaque that
// is too long.
func applyFlags(it cache.Item, cmd *memproto.Command, found *memproto.Item, now int64) bool {
	for flag := range cmd.Flags {
		switch flag[0] {
		case 'T':
			setExpires(it, expiry(now, cmd.Exptime), found, now)
		case 'N':
			if found.Created {
				setExpires(it, expiry(now, cmd.Vivify), found, now)
				found.Won = true
			}
		case 'R':
			if at := it.Expires(); !found.Sent && !found.Created && at != 0 && at < expiry(now, cmd.Recache) {
				found.Won = true
			}
		case 'O':
			if len(flag) > 1+memproto.MaxOpaque {
				return false
			}
		}
	}
	return true
}

// looksFirst reports whether a flag of mg is about what was before the access. memcached notes the access later then.
func looksFirst(cmd *memproto.Command) bool {
	for flag := range cmd.Flags {
		switch flag[0] {
		case 'N', 'T', 'R', 'l', 'h':
			return true
		}
	}
	return false
}

// setExpires gives an item another time of expiry, and notes what a t flag shows from there on.
func setExpires(it cache.Item, at int64, found *memproto.Item, now int64) {
	it.SetExpires(at)
	found.Later[found.Changes] = ttl(it, now)
	found.Changes++
}

// debug executes me. The item is not marked as used.
func (b *Backend) debug(cmd *memproto.Command, w *memproto.Writer, now int64) {
	l := b.cache.Acquire(cmd.Key)
	defer l.Release()
	l.Count(cmdMeta)
	if it, ok := l.Find(now); ok {
		w.Debug(&memproto.Item{
			Key: cmd.Key, Size: it.Size(), Flags: it.Flags(), CAS: it.CAS(), TTL: ttl(it, now), Idle: now - it.Used(), Fetched: it.Fetched(),
			BinaryKey: it.Binary(),
		}, it.Class())
	}
}

// touch executes touch.
func (b *Backend) touch(cmd *memproto.Command, w *memproto.Writer, now int64) {
	l := b.cache.Acquire(cmd.Key)
	defer l.Release()
	it, ok := l.Find(now)
	countGet(l, true, ok)
	if !ok {
		w.Result(memproto.NotFound, 0)
		return
	}
	it.SetExpires(expiry(now, cmd.Exptime))
	l.Bump(it, now)
	w.Result(memproto.Touched, 0)
}

// readThrough has a large value cross the memory bus. It is accounted for piece by piece: whoever looks every few tens of microseconds sees a
// megabyte move, and not all of it at once.
func (b *Backend) readThrough(it cache.Item) {
	for piece := range it.Segments {
		runtime.KeepAlive(touchLines(piece))
		b.accountPiece(piece)
	}
}

// touchLines loads a byte of every cache line of v, so that the value crosses the memory bus as it would when it were sent. The sum is
// returned to keep the compiler from leaving the loads out.
//
//go:noinline
func touchLines(v []byte) (sum uint64) {
	const line = 64
	for i := 0; i < len(v); i += line {
		sum += uint64(v[i])
	}
	if len(v) > 0 {
		sum += uint64(v[len(v)-1]) // a value that does not begin at a line's start reaches into one line more
	}
	return sum
}
