//go:build linux

package cache

// Item is one item of a shard that is locked, or one that is pinned. Of a pinned item only Size, Segments and AppendTo may be used
// once the shard is released.
type Item struct {
	shard *shard
	ref   ref
	h     *header
}

// Size returns the length of the value.
func (i Item) Size() int { return int(i.h.size) }

// Flags returns the client's flags.
func (i Item) Flags() uint32 { return i.h.flags }

// SetFlags sets the client's flags.
func (i Item) SetFlags(f uint32) { i.h.flags = f }

// CAS returns the unique value of this version of the item.
func (i Item) CAS() uint64 { return i.h.cas }

// SetCAS gives the item another version.
func (i Item) SetCAS(v uint64) { i.h.cas = v }

// Expires returns the second at which the item expires, 0 for never.
func (i Item) Expires() int64 { return int64(i.h.expires) }

// SetExpires says when the item expires.
func (i Item) SetExpires(at int64) { i.h.expires = uint32(at) }

// Used returns the second at which the item was last marked as used.
func (i Item) Used() int64 { return int64(i.h.used) }

// Fetched reports whether the item was marked as used since it was stored.
func (i Item) Fetched() bool { return i.h.marks&isFetched != 0 }

// Stale reports whether the item was marked as stale.
func (i Item) Stale() bool { return i.h.marks&isStale != 0 }

// Won reports whether a client has been told to recache the item.
func (i Item) Won() bool { return i.h.marks&isWon != 0 }

// Binary reports whether the item's key came in base64.
func (i Item) Binary() bool { return i.h.marks&isBinary != 0 }

// SetStale marks the item as stale or fresh.
func (i Item) SetStale(v bool) { i.mark(isStale, v) }

// SetWon notes whether a client has been told to recache the item.
func (i Item) SetWon(v bool) { i.mark(isWon, v) }

// SetBinary notes whether the item's key came in base64.
func (i Item) SetBinary(v bool) { i.mark(isBinary, v) }

func (i Item) mark(m marks, v bool) {
	if v {
		i.h.marks |= m
	} else {
		i.h.marks &^= m
	}
}

// Bytes returns what the item counts for: header, key and value.
func (i Item) Bytes() int64 { return i.h.bytes() }

// Class returns the number of the item's size class, from 1.
func (i Item) Class() int { return int(i.shard.arena.pages[pageOf(i.ref)].class) + 1 }

// Pinned reports whether somebody has pinned the item. Its value must then not be changed in place.
func (i Item) Pinned() bool { return i.h.pins > 0 }

// Pin keeps the item's memory while its shard is not locked, so that a large value can be read without keeping everybody else
// waiting. The value does not change meanwhile: whoever stores another one makes another item. Cache.Unpin with the token must follow.
func (i Item) Pin() (token uint64) {
	if i.h.pins == 0 {
		i.shard.pinned++
	}
	i.h.pins++
	return uint64(i.ref)
}

// Unpin ends the Pin that gave the token. The shard must not be held. It may be called from any goroutine.
func (c *Cache) Unpin(token uint64) {
	r := ref(token)
	h := c.arena.header(r)
	s := &c.shards[h.shard]
	s.mu.Lock()
	s.unpin(r, h)
	s.mu.Unlock()
}

func (s *shard) unpin(r ref, h *header) {
	h.pins--
	if h.pins > 0 {
		return
	}
	s.pinned--
	if h.marks&isLinked == 0 {
		s.free(r)
	}
}

// Write puts b into the value at an offset. It must fit.
func (i Item) Write(offset int, b []byte) {
	if first := i.First(); offset+len(b) <= len(first) { // the common case
		copy(first[offset:], b)
		return
	}
	for seg := range i.Segments {
		if len(b) == 0 {
			return
		}
		if offset >= len(seg) {
			offset -= len(seg)
			continue
		}
		n := copy(seg[offset:], b)
		b, offset = b[n:], 0
	}
	if len(b) > 0 {
		panic("cache: a write beyond the end of a value")
	}
}

// AppendTo appends the value to dst.
func (i Item) AppendTo(dst []byte) []byte {
	for seg := range i.Segments {
		dst = append(dst, seg...)
	}
	return dst
}

// First returns the value up to where its first piece ends; that is all of it for an item that takes a single chunk.
func (i Item) First() []byte {
	at := int(i.ref) + headerBytes + int(i.h.keyLen)
	n := min(int(i.h.size), PageBytes-headerBytes-int(i.h.keyLen))
	return i.shard.arena.mem[at : at+n : at+n]
}

// Segments yields the pieces of the value in order. They must not be written to.
func (i Item) Segments(yield func([]byte) bool) {
	a := i.shard.arena
	seg := i.First()
	left, more := int(i.h.size), i.h.more
	for {
		if len(seg) > 0 && !yield(seg) {
			return
		}
		if left -= len(seg); left == 0 {
			return
		}
		at, n := int(more)+tailBytes, min(left, PageBytes-tailBytes)
		seg, more = a.mem[at:at+n:at+n], a.tail(more).more
	}
}
