package memproto

import (
	"strconv"
	"time"
)

// CopyBytes is the size from which a value is kept by reference instead of being copied: then sending it from where it lies costs less
// than copying it, and many replies with the same large value take no memory of their own.
const CopyBytes = 4096

// Item is what a server found, as a reply needs it.
type Item struct {
	Key       []byte
	Value     []byte // of up to CopyBytes is copied at once; a larger one must not change until the reply has been sent
	Size      int    // of the value, where Value is nil and Piece gives it
	Flags     uint32
	CAS       uint64
	TTL       int64    // seconds left; negative for no end
	Later     [2]int64 // the same, after the first and second flag of this command that changed it
	Changes   uint8    // how many did
	Created   bool     // this command made it
	Idle      int64    // seconds since the last access
	Fetched   bool     // it had been asked for before
	BinaryKey bool     // it was stored under a base64 key
	Won       bool     // this client is to recache it
	Stale     bool
	Sent      bool // another client has been told to recache it
}

// Holder is what a value is sent from without a copy. It is told when that is over.
type Holder interface {
	// Unpin ends what the token stands for. It may be called from any goroutine.
	Unpin(token uint64)
}

// Result is how a command about one item ended.
type Result uint8

// The results. Done is a deletion that deleted.
const (
	Pending Result = iota
	Done
	Stored
	NotStored
	Exists
	NotFound
	Touched
	OK
	failed
	number
)

// Ref is a value that is sent from where it lies.
type Ref struct {
	At     int // goes out after Buf[:At]
	Data   []byte
	Holder Holder // nil unless somebody is to be told when Data has been sent
	Token  uint64 // for Holder
}

// Release tells the holder, if there is one, that the data are not needed any more, and forgets them.
func (r *Ref) Release() {
	if r.Holder != nil {
		r.Holder.Unpin(r.Token)
	}
	*r = Ref{At: r.At}
}

// Extras are what our servers add to replies on request.
type Extras struct {
	Queued, Service time.Duration // for L
	Credits         int32         // for P; negative for none
	Leaves          int64         // for L on the model ground: the modelled instant at which the reply leaves, in ns; 0 elsewhere
}

// Writer renders replies into Buf and Refs. Its zero value is ready for use. A command's reply is given in calls of Hit, Result or
// Fail by whoever executes it, and completed by End.
type Writer struct {
	Buf  []byte
	Refs []Ref

	// HeaderOnly answers hits without their values: HD instead of VA, and a classic VALUE with zero bytes.
	HeaderOnly bool

	result  Result
	hit     bool
	item    Item // of a meta command; its reply waits for the timings
	value   []byte
	first   int    // Refs from here on are the value of the command at hand
	number  uint64 // of arithmetic
	failure string
}

// Reset empties w and keeps its memory.
func (w *Writer) Reset() {
	for i := range w.Refs {
		w.Refs[i].Release()
	}
	w.Buf, w.Refs = w.Buf[:0], w.Refs[:0]
	w.clear()
}

// clear forgets the command that has been answered.
func (w *Writer) clear() {
	w.result, w.hit, w.failure, w.value, w.first = Pending, false, "", w.value[:0], len(w.Refs)
}

// Forget removes the first bytes of Buf and the first refs of Refs, which have been sent, and makes room for more. It must not be called between a Hit and its End.
func (w *Writer) Forget(bytes, refs int) {
	w.Buf = w.Buf[:copy(w.Buf, w.Buf[bytes:])]
	n := copy(w.Refs, w.Refs[refs:])
	clear(w.Refs[n:])
	w.Refs = w.Refs[:n]
	for i := range w.Refs {
		w.Refs[i].At -= bytes
	}
	w.first = n
}

// Empty reports whether w holds nothing.
func (w *Writer) Empty() bool { return len(w.Buf) == 0 && len(w.Refs) == 0 }

// Size returns how many bytes w holds.
func (w *Writer) Size() int {
	n := len(w.Buf)
	for i := range w.Refs {
		n += len(w.Refs[i].Data)
	}
	return n
}

// Append moves what o holds to w.
func (w *Writer) Append(o *Writer) {
	at := len(w.Buf)
	w.Buf = append(w.Buf, o.Buf...)
	for _, ref := range o.Refs {
		ref.At += at
		w.Refs = append(w.Refs, ref)
	}
	clear(o.Refs)
	o.Buf, o.Refs = o.Buf[:0], o.Refs[:0]
	w.first, o.first = len(w.Refs), 0
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
	whole := it.Value != nil || it.Size == 0
	if whole {
		it.Size = len(it.Value)
	}
	if c.Verb == MetaGet {
		w.item, w.hit = it, true
		w.item.Key, w.item.Value = nil, nil // they may be gone by the time of the reply
	} else {
		w.valueLine(c, &it)
	}
	if len(it.Value) > 0 && w.Wants(c) {
		w.Piece(c, it.Value, len(it.Value) >= CopyBytes)
	}
	if whole {
		w.EndHit(c)
	}
}

// Wants reports whether the reply to c has the value in it, and not only what is known of it.
func (w *Writer) Wants(c *Command) bool { return !w.HeaderOnly && (c.WantValue || c.Verb != MetaGet) }

// Piece adds a part of the value of the item of the last Hit, whose pieces must add up to its Size. A shared one is sent from where
// it lies; see Hold. EndHit must follow the last one. None must be given to a command whose reply does not want it.
func (w *Writer) Piece(c *Command, b []byte, shared bool) {
	switch {
	case shared && c.Verb == MetaGet:
		w.Refs = append(w.Refs, Ref{At: -1, Data: b})
	case shared:
		w.Refs = append(w.Refs, Ref{At: len(w.Buf), Data: b})
	case c.Verb == MetaGet:
		w.value = append(w.value, b...)
	default:
		w.Buf = append(w.Buf, b...)
	}
}

// Hold has the holder told when the shared pieces since the last Hold have been sent, or will not be.
func (w *Writer) Hold(h Holder, token uint64) {
	last := &w.Refs[len(w.Refs)-1]
	last.Holder, last.Token = h, token
}

// EndHit completes the answer of a Hit whose value came in pieces.
func (w *Writer) EndHit(c *Command) {
	if c.Verb != MetaGet {
		w.Buf = append(w.Buf, "\r\n"...)
	}
}

// valueLine renders "VALUE <key> <flags> <bytes> [<cas>]".
func (w *Writer) valueLine(c *Command, it *Item) {
	length := it.Size
	if w.HeaderOnly {
		length = 0
	}
	w.Buf = append(w.Buf, "VALUE "...)
	w.Buf = append(w.Buf, it.Key...)
	w.Buf = append(w.Buf, ' ')
	w.Buf = strconv.AppendUint(w.Buf, uint64(it.Flags), 10)
	w.Buf = append(w.Buf, ' ')
	w.Buf = strconv.AppendInt(w.Buf, int64(length), 10)
	if c.Verb == Gets || c.Verb == Gats {
		w.Buf = append(w.Buf, ' ')
		w.Buf = strconv.AppendUint(w.Buf, it.CAS, 10)
	}
	w.Buf = append(w.Buf, "\r\n"...)
}

// Result answers a command other than a get. cas is the number that the item has now, where it was stored.
func (w *Writer) Result(r Result, cas uint64) { w.result, w.item.CAS = r, cas }

// Number answers arithmetic with the value that the item has now. Of it, CAS and times are looked at, and whether it was created.
func (w *Writer) Number(v uint64, it Item) { w.result, w.number, w.item = number, v, it }

// Fail answers with an error line, such as "SERVER_ERROR out of memory storing object", instead of anything else.
func (w *Writer) Fail(line string) { w.result, w.failure = failed, line }

// Failed reports whether the command at hand is to be answered with an error line.
func (w *Writer) Failed() bool { return w.result == failed }

// End completes the reply to c.
func (w *Writer) End(c *Command, x Extras) {
	switch {
	case w.result == failed:
		if !c.NoReply {
			w.Line(w.failure)
		}
	case c.Verb <= Gats:
		w.Line("END")
	case c.Verb == MetaGet && w.hit:
		w.metaHit(c, x)
	case c.Verb == MetaGet || c.Verb == MetaDebug:
		if !w.hit && !c.Quiet {
			w.metaLine("EN", c, x)
		}
	case c.Verb == MetaNoop:
		w.noop(c, x)
	case c.Verb.Meta():
		w.metaResult(c, x)
	case !c.NoReply:
		w.classicLine(c)
	}
	w.clear()
}

var (
	metaWords    = [...]string{Done: "HD", Stored: "HD", NotStored: "NS", Exists: "EX", NotFound: "NF", number: "HD"}
	classicWords = [...]string{
		Done: "DELETED", Stored: "STORED", NotStored: "NOT_STORED", Exists: "EXISTS", NotFound: "NOT_FOUND", Touched: "TOUCHED", OK: "OK",
		number: "",
	}
)

func (w *Writer) classicLine(c *Command) {
	switch w.result {
	case Pending:
		panic("memproto: no result for " + c.Verb.String())
	case number:
		w.Buf = strconv.AppendUint(w.Buf, w.number, 10)
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
	if c.HasSent {
		w.opaque(c)
	}
	w.Buf = append(w.Buf, "\r\n"...)
}

// opaque adds the opaque of a command. Replies of the model ground may leave out of order, so even a refusal has to say what it is
// the answer to.
func (w *Writer) opaque(c *Command) {
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		if word[0] == 'O' {
			w.Buf = append(w.Buf, ' ')
			w.Buf = append(w.Buf, word...)
		}
	}
}
