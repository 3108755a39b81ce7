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
	if itemBytes(c) > p.MaxItem && p.MaxItem > 0 {
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
	if bytes.HasPrefix(word, []byte("get ")) || bytes.HasPrefix(word, []byte("gets ")) {
		return len(buf) > MaxGet
	}
	return true
}

func itemBytes(c *Command) int {
	n := itemOverhead + len(c.Key) + c.Length
	if c.ClientFlags != 0 {
		n += flagBytes
	}
	return n
}

// command parses a line. Block stands for a storage command whose block follows.
func (p *Parser) command(line []byte, c *Command) Status {
	word, rest := token(line)
	switch string(word) {
	case "get":
		return p.get(Get, rest, c)
	case "gets":
		return p.get(Gets, rest, c)
	case "mg":
		return p.metaGet(rest, c)
	case "set":
		return p.set(rest, c)
	case "ms":
		return p.metaSet(rest, c)
	case "md":
		return p.metaDelete(rest, c)
	case "mn":
		c.Verb = MetaNoop
	case "delete":
		return p.delete(rest, c)
	case "version":
		c.Verb = Version
	case "stats":
		c.Verb, c.Args = Stats, bytes.Trim(rest, " ")
	case "quit":
		c.Verb = Quit
	default:
		return unknown(word, line, c)
	}
	return Ready
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

// set parses "set <key> <flags> <exptime> <bytes> [noreply]".
func (p *Parser) set(rest []byte, c *Command) Status {
	c.Verb = Set
	var words [6][]byte // one more than there may be
	n := 0
	for ; n < len(words); n++ {
		if words[n], rest = token(rest); len(words[n]) == 0 {
			break
		}
	}
	if n < 4 || n > 5 {
		return c.refuse(errUnknown)
	}
	c.NoReply = string(words[n-1]) == "noreply" // even where a number should be
	c.Key = words[0]
	flags, ok1 := parseUint32(words[1])
	exptime, ok2 := parseInt(words[2])
	length, ok3 := parseInt(words[3])
	if len(c.Key) > MaxKey || !ok1 || !ok2 || !ok3 || !lengthFits(length) {
		return c.refuse(errFormat)
	}
	c.ClientFlags, c.Exptime, c.Length = flags, exptime, int(length)
	return Block
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
