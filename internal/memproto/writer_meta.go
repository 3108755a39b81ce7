package memproto

import (
	"encoding/base64"
	"strconv"
	"time"
)

// metaResult renders the reply of ms, md and ma. Quiet hides what was to be expected only. A missing key, and a number that was made,
// are answered even so, whatever the protocol's text says.
func (w *Writer) metaResult(c *Command, x Extras) {
	switch {
	case c.Quiet && (w.result == Done || w.result == Stored || w.result == number && !w.item.Created):
	case w.result == number:
		w.metaNumber(c, x)
	default:
		w.metaLine(metaWords[w.result], c, x)
	}
}

// metaHit renders "VA <length> <flag>*" and the value, or "HD <flag>*".
func (w *Writer) metaHit(c *Command, x Extras) {
	withValue := w.Wants(c)
	if withValue {
		w.Buf = append(w.Buf, "VA "...)
		w.Buf = strconv.AppendInt(w.Buf, int64(w.item.Size), 10)
	} else {
		w.Buf = append(w.Buf, "HD"...)
	}
	ttl := times{item: &w.item}
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		switch word[0] {
		case 'T', 'N':
			ttl.pass(word[0])
		case 's':
			w.flag('s', uint64(w.item.Size))
		case 'f':
			w.flag('f', uint64(w.item.Flags))
		case 'c':
			w.flag('c', w.item.CAS)
		case 'l':
			w.flag('l', uint64(max(w.item.Idle, 0)))
		case 'h':
			fetched := uint64(0)
			if w.item.Fetched {
				fetched = 1
			}
			w.flag('h', fetched)
		case 't':
			w.ttl(ttl.now())
		case 'k':
			w.key(c.Key, w.item.BinaryKey)
		default:
			w.common(word, c, x)
		}
	}
	if w.item.Sent {
		w.Buf = append(w.Buf, " Z"...)
	}
	if w.item.Stale {
		w.Buf = append(w.Buf, " X"...)
	}
	if w.item.Won {
		w.Buf = append(w.Buf, " W"...)
	}
	w.Buf = append(w.Buf, "\r\n"...)
	if !withValue {
		return
	}
	for i := w.first; i < len(w.Refs); i++ {
		w.Refs[i].At = len(w.Buf)
	}
	w.Buf = append(w.Buf, w.value...)
	w.Buf = append(w.Buf, "\r\n"...)
}

// times follows the time that an item has left through the flags of a command: memcached does what flags say in their order, so that a
// t before a T shows the time that was, and one behind it the time that is.
type times struct {
	item *Item
	n    uint8
}

func (t *times) pass(flag byte) {
	if (flag == 'T' || t.item.Created) && t.n < t.item.Changes {
		t.n++
	}
}

func (t *times) now() int64 {
	if t.n == 0 {
		return t.item.TTL
	}
	return t.item.Later[t.n-1]
}

// metaNumber renders the reply of ma: "HD <flag>*", or "VA <length> <flag>*" and the number.
func (w *Writer) metaNumber(c *Command, x Extras) {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], w.number, 10)
	if c.WantValue {
		w.Buf = append(w.Buf, "VA "...)
		w.Buf = strconv.AppendInt(w.Buf, int64(len(text)), 10)
	} else {
		w.Buf = append(w.Buf, "HD"...)
	}
	ttl := times{item: &w.item}
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		switch word[0] {
		case 'T', 'N':
			ttl.pass(word[0])
		case 'c':
			w.flag('c', w.item.CAS)
		case 't':
			w.ttl(ttl.now())
		case 'k':
			w.key(c.Key, c.BinaryKey)
		default:
			w.common(word, c, x)
		}
	}
	w.Buf = append(w.Buf, "\r\n"...)
	if c.WantValue {
		w.Buf = append(w.Buf, text...)
		w.Buf = append(w.Buf, "\r\n"...)
	}
}

func (w *Writer) ttl(seconds int64) {
	if seconds < 0 {
		w.Buf = append(w.Buf, " t-1"...)
		return
	}
	w.flag('t', uint64(seconds))
}

// metaLine renders the reply of a meta command that has no item to show.
func (w *Writer) metaLine(word string, c *Command, x Extras) {
	w.Buf = append(w.Buf, word...)
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		switch {
		case word[0] == 'k':
			w.key(c.Key, c.BinaryKey)
		case word[0] == 'c' && c.Verb == MetaSet:
			w.flag('c', w.item.CAS)
		default:
			w.common(word, c, x)
		}
	}
	w.Buf = append(w.Buf, "\r\n"...)
}

// Debug answers me with what is known of an item. The time is shown as memcached shows it, as seconds since the item expired.
func (w *Writer) Debug(it *Item, class int) {
	w.hit = true
	w.Buf = append(w.Buf, "ME "...)
	if it.BinaryKey {
		w.Buf = base64.StdEncoding.AppendEncode(w.Buf, it.Key)
	} else {
		w.Buf = append(w.Buf, it.Key...)
	}
	w.Buf = append(w.Buf, " exp="...)
	if it.TTL < 0 {
		w.Buf = append(w.Buf, "-1"...)
	} else {
		w.Buf = strconv.AppendInt(w.Buf, -it.TTL, 10)
	}
	w.Buf = append(w.Buf, " la="...)
	w.Buf = strconv.AppendInt(w.Buf, max(it.Idle, 0), 10)
	w.Buf = append(w.Buf, " cas="...)
	w.Buf = strconv.AppendUint(w.Buf, it.CAS, 10)
	w.Buf = append(w.Buf, " fetch="...)
	if it.Fetched {
		w.Buf = append(w.Buf, "yes"...)
	} else {
		w.Buf = append(w.Buf, "no"...)
	}
	w.Buf = append(w.Buf, " cls="...)
	w.Buf = strconv.AppendInt(w.Buf, int64(class), 10)
	w.Buf = append(w.Buf, " size="...)
	w.Buf = strconv.AppendInt(w.Buf, int64(ItemBytes(len(it.Key), it.Size, it.Flags)), 10)
	w.Buf = append(w.Buf, "\r\n"...)
}

// common renders the flags that every meta reply may have.
func (w *Writer) common(word []byte, c *Command, x Extras) {
	switch {
	case word[0] == 'O':
		w.Buf = append(w.Buf, ' ')
		w.Buf = append(w.Buf, word...)
	case word[0] == 'L':
		w.timings(x)
	case word[0] == 'P' && c.HasDemand:
		w.credits(x)
	}
}

// noop renders "MN", with credits where the command is a question for them. Timings are for a question that says when it was sent, to be
// answered with an instant: how long it was held stands for the queueing delay.
func (w *Writer) noop(c *Command, x Extras) {
	w.Buf = append(w.Buf, "MN"...)
	if c.HasDemand {
		w.credits(x)
	}
	if c.HasSent {
		w.timings(x)
	}
	w.Buf = append(w.Buf, "\r\n"...)
}

func (w *Writer) flag(name byte, v uint64) {
	w.Buf = append(w.Buf, ' ', name)
	w.Buf = strconv.AppendUint(w.Buf, v, 10)
}

func (w *Writer) key(key []byte, binary bool) {
	w.Buf = append(w.Buf, ' ', 'k')
	if !binary {
		w.Buf = append(w.Buf, key...)
		return
	}
	w.Buf = base64.StdEncoding.AppendEncode(w.Buf, key)
	w.Buf = append(w.Buf, " b"...)
}

func (w *Writer) timings(x Extras) {
	w.flag('L', uint64(max(x.Queued.Microseconds(), 0)))
	if x.Leaves > 0 {
		w.fraction(x.Queued)
	}
	w.Buf = append(w.Buf, ',')
	w.Buf = strconv.AppendInt(w.Buf, max(x.Service.Microseconds(), 0), 10)
	if x.Leaves > 0 {
		w.fraction(x.Service)
		w.Buf = append(w.Buf, ',')
		w.Buf = strconv.AppendInt(w.Buf, x.Leaves, 10)
	}
}

// fraction adds what d has beyond whole microseconds, in three decimals. Computed times have no noise that would make it meaningless.
func (w *Writer) fraction(d time.Duration) {
	ns := max(d, 0) % time.Microsecond
	w.Buf = append(w.Buf, '.', byte('0'+ns/100), byte('0'+ns/10%10), byte('0'+ns%10))
}

func (w *Writer) credits(x Extras) {
	if x.Credits >= 0 {
		w.flag('P', uint64(x.Credits))
	}
}
