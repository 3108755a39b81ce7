package memproto

import (
	"bytes"
	"math"
)

// Limits of the protocol.
const (
	MaxKey    = 250     // bytes of a key
	MaxLine   = 2048    // bytes of a line that has not ended yet, unless it is a get with many keys
	MaxGet    = 1 << 20 // bytes of a get with many keys; memcached has no bound here
	maxTokens = 23      // words of a line that are looked at
)

// itemOverhead is what memcached 1.6 adds to key and value when it compares an item with the item size limit: header, CAS number, the
// zero byte after the key and the value's line end. Items with client flags take flagBytes more. Our limit is the same, so that
// what fits there fits here.
const (
	itemOverhead = 48 + 8 + 1 + 2
	flagBytes    = 4
)

// Status says what Parse made of the buffer.
type Status uint8

const (
	// NeedMore means that no command is complete yet.
	NeedMore Status = iota
	// Ready means that the command is complete.
	Ready
	// Block means that the line is complete and a data block of Length+2 bytes follows which is not complete in the buffer. The
	// caller gathers it wherever it likes, passes it to Command.SetBlock, and goes on parsing after it.
	Block
	// Refused means that the command is wrong. Command.Error is to be answered, and parsing goes on.
	Refused
	// Close means that the connection is to be closed, after Command.Error if that is not empty.
	Close
)

// Parser turns the bytes of one connection into commands. Its zero value has no limit on items.
type Parser struct {
	MaxItem int // bytes of the largest item accepted, counted as memcached counts; 0 for no limit

	skip    int // bytes of a refused block still to come
	started bool
	key     [MaxKey]byte // of a base64 key, decoded
}

// Parse parses the next command at the start of buf into c and returns how many bytes it took. Bytes may be taken with NeedMore too:
// those of a block that nobody wants.
func (p *Parser) Parse(buf []byte, c *Command) (n int, s Status) {
	if p.skip > 0 {
		n = min(p.skip, len(buf))
		p.skip -= n
		buf = buf[n:]
	}
	if len(buf) == 0 {
		return n, NeedMore
	}
	*c = Command{}
	if !p.started {
		p.started = true
		if buf[0] == 0x80 {
			c.Error = BinaryText
			return n, Close
		}
	}
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		if endless(buf) {
			return n, Close
		}
		return n, NeedMore
	}
	line := buf[:end]
	if end > 1 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	// memcached works on C strings.
	if zero := bytes.IndexByte(line, 0); zero >= 0 {
		line = line[:zero]
	}
	n += end + 1
	s = p.command(line, c)
	if s != Block {
		return n, s
	}
	rest := buf[end+1:]
	if ItemBytes(len(c.Key), c.Length, c.ClientFlags) > p.MaxItem && p.MaxItem > 0 {
		c.TooLarge = true
		p.skip = c.Length + 2
		return n, Ready
	}
	if len(rest) < c.Length+2 {
		return n, Block
	}
	return n + c.Length + 2, c.SetBlock(rest[:c.Length+2])
}

// endless reports whether a line without an end has become too long.
func endless(buf []byte) bool {
	if len(buf) <= MaxLine {
		return false
	}
	word := bytes.TrimLeft(buf, " ")
	if len(buf)-len(word) > 100 { // memcached's idea of too much
		return true
	}
	if bytes.HasPrefix(word, []byte("get ")) || bytes.HasPrefix(word, []byte("gets ")) {
		return len(buf) > MaxGet
	}
	return true
}

// ItemBytes returns how large memcached takes an item to be.
func ItemBytes(key, value int, flags uint32) int {
	n := itemOverhead + key + value
	if flags != 0 {
		n += flagBytes
	}
	return n
}

// command parses a line. Block stands for a storage command whose block follows.
func (p *Parser) command(line []byte, c *Command) Status {
	word, rest := token(line)
	switch string(word) {
	case "get", "bget": // the latter is a forgotten name of the former
		return p.get(Get, rest, c)
	case "gets":
		return p.get(Gets, rest, c)
	case "mg":
		return p.metaGet(rest, c)
	case "set":
		return p.update(Set, rest, c)
	case "ms":
		return p.metaSet(rest, c)
	case "md":
		return p.metaDelete(rest, c)
	case "ma":
		return p.metaArithmetic(rest, c)
	case "me":
		return p.metaDebug(rest, c)
	case "mn":
		return p.metaNoop(rest, c)
	case "gat":
		return p.getAndTouch(Gat, rest, c)
	case "gats":
		return p.getAndTouch(Gats, rest, c)
	case "add":
		return p.update(Add, rest, c)
	case "replace":
		return p.update(Replace, rest, c)
	case "append":
		return p.update(Append, rest, c)
	case "prepend":
		return p.update(Prepend, rest, c)
	case "cas":
		return p.update(CAS, rest, c)
	case "delete":
		return p.delete(rest, c)
	case "incr":
		return p.arithmetic(Incr, rest, c)
	case "decr":
		return p.arithmetic(Decr, rest, c)
	case "touch":
		return p.touch(rest, c)
	case "flush_all":
		return p.flushAll(rest, c)
	}
	return admin(word, rest, line, c)
}

// adminVerbs are the commands about the server and the connection.
var adminVerbs = []Verb{Version, Stats, Quit, Verbosity, CacheMemlimit, Slabs, LRU, LRUCrawler, Watch, Shutdown}

func admin(word, rest, line []byte, c *Command) Status {
	for _, v := range adminVerbs {
		if string(word) == verbNames[v] {
			c.Verb, c.Args = v, bytes.Trim(rest, " ")
			return Ready
		}
	}
	return unknown(word, line, c)
}

// unknown tells a lost HTTP client, whose connection is closed without a word, from an unknown command. memcached looks for the
// former only where no command of its own begins with the same letter.
func unknown(word, line []byte, c *Command) Status {
	if len(word) > 0 {
		switch first := word[0]; {
		case first == 'm' && len(word) == 2, bytes.IndexByte([]byte("gsacidt"), first) >= 0:
			return c.refuse(errUnknown)
		}
	}
	var last []byte
	for range maxTokens {
		word, line = token(line)
		if len(word) == 0 {
			break
		}
		last = word
	}
	if bytes.HasPrefix(last, []byte("HTTP/")) {
		return Close
	}
	return c.refuse(errUnknown)
}

// get parses "get <key>+". All keys are checked before any is looked up, because an error answers the whole command.
func (p *Parser) get(v Verb, rest []byte, c *Command) Status {
	c.Verb = v
	c.Key, c.Args = token(rest)
	if len(c.Key) == 0 {
		return c.refuse(errUnknown)
	}
	for key, more := token(rest); len(key) > 0; key, more = token(more) {
		if len(key) > MaxKey {
			return c.refuse(errFormat)
		}
	}
	return Ready
}

// getAndTouch parses "gat <exptime> <key>*".
func (p *Parser) getAndTouch(v Verb, rest []byte, c *Command) Status {
	first, rest := token(rest)
	if len(first) == 0 {
		return c.refuse(errUnknown)
	}
	exptime, ok := ParseInt(first)
	if !ok {
		return c.refuse(errExptime)
	}
	c.Verb = v
	s := p.get(v, rest, c)
	if len(c.Key) == 0 { // which is allowed here, and finds nothing
		c.Error = ""
		s = Ready
	}
	c.Exptime = exptime
	return s
}

// words splits s into at most len(dst) words and returns how many there are, which is one more than dst has room for if there are
// more.
func words(s []byte, dst [][]byte) (n int) {
	for word, rest := token(s); len(word) > 0; word, rest = token(rest) {
		if n == len(dst) {
			return n + 1
		}
		dst[n] = word
		n++
	}
	return n
}

// update parses "<verb> <key> <flags> <exptime> <bytes> [noreply]"; for cas, its number stands before noreply.
func (p *Parser) update(v Verb, rest []byte, c *Command) Status {
	c.Verb = v
	var word [6][]byte
	n, least := words(rest, word[:]), 4
	if v == CAS {
		least = 5
	}
	if n < least || n > least+1 {
		return c.refuse(errUnknown)
	}
	c.NoReply = string(word[n-1]) == "noreply" // even where a number should be
	c.Key = word[0]
	flags, ok1 := ParseUint32(word[1])
	exptime, ok2 := ParseInt(word[2])
	length, ok3 := ParseInt(word[3])
	if v == CAS {
		var ok bool
		c.CAS, ok = ParseUint64(word[4])
		c.HasCAS, ok3 = true, ok3 && ok
	}
	if len(c.Key) > MaxKey || !ok1 || !ok2 || !ok3 || !lengthFits(length) {
		return c.refuse(errFormat)
	}
	c.ClientFlags, c.Exptime, c.Length = flags, exptime, int(length)
	return Block
}

// arithmetic parses "incr <key> <delta> [noreply]".
func (p *Parser) arithmetic(v Verb, rest []byte, c *Command) Status {
	c.Verb = v
	var word [3][]byte
	n := words(rest, word[:])
	if n < 2 || n > 3 {
		return c.refuse(errUnknown)
	}
	c.NoReply = string(word[n-1]) == "noreply"
	c.Key = word[0]
	if len(c.Key) > MaxKey {
		return c.refuse(errFormat)
	}
	var ok bool
	if c.Delta, ok = ParseUint64(word[1]); !ok {
		return c.refuse(errDeltaArg)
	}
	return Ready
}

// touch parses "touch <key> <exptime> [noreply]".
func (p *Parser) touch(rest []byte, c *Command) Status {
	c.Verb = Touch
	var word [3][]byte
	n := words(rest, word[:])
	if n < 2 || n > 3 {
		return c.refuse(errUnknown)
	}
	c.NoReply = string(word[n-1]) == "noreply"
	c.Key = word[0]
	if len(c.Key) > MaxKey {
		return c.refuse(errFormat)
	}
	var ok bool
	if c.Exptime, ok = ParseInt(word[1]); !ok {
		return c.refuse(errExptime)
	}
	return Ready
}

// flushAll parses "flush_all [<exptime>] [noreply]".
func (p *Parser) flushAll(rest []byte, c *Command) Status {
	c.Verb = FlushAll
	var word [2][]byte
	n := words(rest, word[:])
	if n > 2 {
		return c.refuse(errUnknown)
	}
	c.NoReply = n > 0 && string(word[n-1]) == "noreply"
	if n == 0 || n == 1 && c.NoReply {
		return Ready
	}
	if c.Exptime, c.HasTTL = ParseInt(word[0]); !c.HasTTL {
		return c.refuse(errExptime)
	}
	return Ready
}

func lengthFits(n int32) bool { return n >= 0 && n <= math.MaxInt32-2 }

// delete parses "delete <key> [0] [noreply]"; the 0 is a left-over of an older protocol.
func (p *Parser) delete(rest []byte, c *Command) Status {
	c.Verb = Delete
	c.Key, rest = token(rest)
	second, rest := token(rest)
	third, rest := token(rest)
	more, _ := token(rest)
	if len(c.Key) == 0 || len(more) > 0 {
		return c.refuse(errUnknown)
	}
	last := second
	if len(third) > 0 {
		last = third
	}
	c.NoReply = string(last) == "noreply"
	zero := string(second) == "0"
	if len(second) > 0 && !(zero && len(third) == 0 || c.NoReply && (len(third) == 0 || zero)) {
		return c.refuse(errDelete)
	}
	if len(c.Key) > MaxKey {
		return c.refuse(errFormat)
	}
	return Ready
}

// token returns the first word of s, empty if there is none, and what follows it.
func token(s []byte) (word, rest []byte) {
	i := 0
	for i < len(s) && s[i] == ' ' {
		i++
	}
	s = s[i:]
	if end := bytes.IndexByte(s, ' '); end >= 0 {
		return s[:end:end], s[end:]
	}
	return s, nil
}
