package memproto

import (
	"encoding/base64"
	"strconv"
	"time"
)

// refBytes is the size from which a value is kept by reference instead of being copied: then sending it from where it lies costs less
// than copying it, and many replies with the same large value take no memory of their own.
const refBytes = 4096

// Item is what a server found, as a reply needs it.
type Item struct {
	Key       []byte
	Value     []byte // must not change until the reply has been sent
	Flags     uint32
	CAS       uint64
	TTL       int64 // seconds left; negative for no end
	OldTTL    int64 // the same, before a T flag of this command changed it
	Idle      int64 // seconds since the last access
	Fetched   bool  // it had been asked for before
	BinaryKey bool  // it was stored under a base64 key
}

// Result is how a command about one item ended.
type Result uint8

// The results. Done is a deletion that deleted, or a meta get without value that hit.
const (
	Pending Result = iota
	Done
	Stored
	NotStored
	Exists
	NotFound
	failed
)

// Ref is a value that is sent from where it lies.
type Ref struct {
	At   int // goes out after Buf[:At]
	Data []byte
}

// Extras are what our servers add to replies on request.
type Extras struct {
	Queued, Service time.Duration // for L
	Credits         int32         // for P; negative for none
}

// Writer renders replies into Buf and Refs. Its zero value is ready for use. A command's reply is given in calls of Hit, Result or
// Fail by whoever executes it, and completed by End.
type Writer struct {
	Buf  []byte
	Refs []Ref

	// HeaderOnly answers hits without their values: HD instead of VA, and a classic VALUE with zero bytes.
	HeaderOnly bool

	result  Result
	item    Item // of a meta get that hit; its reply waits for the timings
	hit     bool
	failure string
}

// Reset empties w and keeps its memory.
func (w *Writer) Reset() {
	clear(w.Refs)
	*w = Writer{Buf: w.Buf[:0], Refs: w.Refs[:0], HeaderOnly: w.HeaderOnly}
}

// Size returns how many bytes w holds.
func (w *Writer) Size() int {
	n := len(w.Buf)
	for i := range w.Refs {
		n += len(w.Refs[i].Data)
	}
	return n
}

// Append adds what o holds to w.
func (w *Writer) Append(o *Writer) {
	at := len(w.Buf)
	w.Buf = append(w.Buf, o.Buf...)
	for _, ref := range o.Refs {
		w.Refs = append(w.Refs, Ref{At: at + ref.At, Data: ref.Data})
	}
}

// Line adds a line to w.
func (w *Writer) Line(text string) {
	w.Buf = append(w.Buf, text...)
	w.Buf = append(w.Buf, "\r\n"...)
}

// Stat adds a line of statistics.
func (w *Writer) Stat(name, value string) {
	w.Buf = append(w.Buf, "STAT "...)
	w.Buf = append(w.Buf, name...)
	w.Buf = append(w.Buf, ' ')
	w.Line(value)
}

// Hit answers a get with an item that was found. A classic get has one for each key that hit.
func (w *Writer) Hit(c *Command, it Item) {
	if c.Verb == MetaGet {
		w.item, w.hit = it, true
		return
	}
	length := len(it.Value)
	if w.HeaderOnly {
		length = 0
	}
	w.Buf = append(w.Buf, "VALUE "...)
	w.Buf = append(w.Buf, it.Key...)
	w.Buf = append(w.Buf, ' ')
	w.Buf = strconv.AppendUint(w.Buf, uint64(it.Flags), 10)
	w.Buf = append(w.Buf, ' ')
	w.Buf = strconv.AppendInt(w.Buf, int64(length), 10)
	if c.Verb == Gets {
		w.Buf = append(w.Buf, ' ')
		w.Buf = strconv.AppendUint(w.Buf, it.CAS, 10)
	}
	w.Buf = append(w.Buf, "\r\n"...)
	w.block(it.Value[:length])
}

// Result answers a command other than a get. cas is the number that the item has now, where it was stored.
func (w *Writer) Result(r Result, cas uint64) { w.result, w.item.CAS = r, cas }

// Fail answers with an error line, such as "SERVER_ERROR out of memory storing object", instead of anything else.
func (w *Writer) Fail(line string) { w.result, w.failure = failed, line }

// End completes the reply to c.
func (w *Writer) End(c *Command, x Extras) {
	switch {
	case w.result == failed:
		if !c.NoReply {
			w.Line(w.failure)
		}
	case c.Verb == Get || c.Verb == Gets:
		w.Line("END")
	case c.Verb == MetaGet && w.hit:
		w.metaHit(c, x)
	case c.Verb == MetaGet:
		if !c.Quiet {
			w.metaLine("EN", c, x)
		}
	case c.Verb.Meta():
		// Quiet hides what was to be expected only. md of a missing key is answered even so, whatever the protocol's text says.
		if !(c.Quiet && (w.result == Done || w.result == Stored)) {
			w.metaLine(metaWords[w.result], c, x)
		}
	case !c.NoReply:
		w.classicLine(c)
	}
	w.result, w.item, w.hit, w.failure = Pending, Item{}, false, ""
}

var (
	metaWords    = [...]string{Done: "HD", Stored: "HD", NotStored: "NS", Exists: "EX", NotFound: "NF"}
	classicWords = [...]string{Done: "DELETED", Stored: "STORED", NotStored: "NOT_STORED", Exists: "EXISTS", NotFound: "NOT_FOUND"}
)

func (w *Writer) classicLine(c *Command) {
	if w.result == Pending {
		panic("memproto: no result for " + c.Verb.String())
	}
	w.Line(classicWords[w.result])
}

// Overloaded answers c with a refusal: SERVER_ERROR overloaded REASON, with credits and timings where c asks for them. A classic
// command with noreply is refused in silence; quiet meta commands are answered, as with all errors.
func (w *Writer) Overloaded(c *Command, reason string, x Extras) {
	if c.NoReply {
		return
	}
	w.Buf = append(w.Buf, "SERVER_ERROR overloaded "...)
	w.Buf = append(w.Buf, reason...)
	if c.HasDemand {
		w.credits(x)
	}
	if c.WantTimings {
		w.timings(x)
	}
	w.Buf = append(w.Buf, "\r\n"...)
}

// metaHit renders "VA <length> <flag>*" and the value, or "HD <flag>*".
func (w *Writer) metaHit(c *Command, x Extras) {
	withValue := c.WantValue && !w.HeaderOnly
	if withValue {
		w.Buf = append(w.Buf, "VA "...)
		w.Buf = strconv.AppendInt(w.Buf, int64(len(w.item.Value)), 10)
	} else {
		w.Buf = append(w.Buf, "HD"...)
	}
	ttl := w.item.OldTTL // until the T flag is passed: memcached does what flags say in their order
	if !c.HasTTL {
		ttl = w.item.TTL
	}
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		switch word[0] {
		case 'T':
			ttl = w.item.TTL
		case 's':
			w.flag('s', uint64(len(w.item.Value)))
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
			if ttl < 0 {
				w.Buf = append(w.Buf, " t-1"...)
			} else {
				w.flag('t', uint64(ttl))
			}
		case 'k':
			w.key(c.Key, w.item.BinaryKey)
		default:
			w.common(word, c, x)
		}
	}
	w.Buf = append(w.Buf, "\r\n"...)
	if withValue {
		w.block(w.item.Value)
	}
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
	w.Buf = append(w.Buf, ',')
	w.Buf = strconv.AppendInt(w.Buf, max(x.Service.Microseconds(), 0), 10)
}

func (w *Writer) credits(x Extras) {
	if x.Credits >= 0 {
		w.flag('P', uint64(x.Credits))
	}
}

// block adds a value and its line end.
func (w *Writer) block(v []byte) {
	if len(v) >= refBytes {
		w.Refs = append(w.Refs, Ref{At: len(w.Buf), Data: v})
	} else {
		w.Buf = append(w.Buf, v...)
	}
	w.Buf = append(w.Buf, "\r\n"...)
}
