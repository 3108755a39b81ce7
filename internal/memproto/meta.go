package memproto

import (
	"bytes"
	"math"
)

// Limits of the meta commands.
const (
	MaxOpaque = 31 // bytes of an opaque after its O
	maxFlags  = 19 // words of a meta line, its name and key included
)

// metaGet parses "mg <key> <flag>*".
func (p *Parser) metaGet(rest []byte, c *Command) Status {
	c.Verb = MetaGet
	c.Key, c.Args = token(rest)
	switch {
	case len(c.Key) == 0:
		return c.refuse(errUnknown)
	case len(c.Key) > MaxKey:
		return c.refuse(errFormat)
	case count(c.Args) > maxFlags-2:
		return c.refuse(errManyFlagsGet)
	}
	if text := p.flags(c); text != "" {
		return c.refuse(text)
	}
	return Ready
}

// metaSet parses "ms <key> <length> <flag>*". From where the length is known, errors swallow the block.
func (p *Parser) metaSet(rest []byte, c *Command) Status {
	c.Verb = MetaSet
	c.Key, rest = token(rest)
	size, flags := token(rest)
	c.Args = flags
	if len(c.Key) == 0 {
		return c.refuse(errUnknown)
	}
	if len(c.Key) > MaxKey || len(size) == 0 {
		return c.refuse(errFormat)
	}
	if count(c.Args) > maxFlags-3 {
		return c.refuse(errManyFlags)
	}
	length, ok := ParseInt(size)
	if !ok || !lengthFits(length) {
		return c.refuse(errFormat)
	}
	c.Length = int(length)
	if text := p.flags(c); text != "" {
		p.skip = c.Length + 2
		return c.refuse(text)
	}
	return Block
}

// metaDelete parses "md <key> <flag>*".
func (p *Parser) metaDelete(rest []byte, c *Command) Status {
	c.Verb = MetaDelete
	c.Key, c.Args = token(rest)
	switch {
	case len(c.Key) == 0:
		return c.refuse(errUnknown)
	case len(c.Key) > MaxKey:
		return c.refuse(errFormat)
	case count(c.Args) > maxFlags-2:
		return c.refuse(errManyFlags)
	}
	if text := p.flags(c); text == errOpaque {
		return c.refuse(text)
	} else if text != "" {
		return c.refuse(errDeleteFlag)
	}
	return Ready
}

// metaArithmetic parses "ma <key> <flag>*".
func (p *Parser) metaArithmetic(rest []byte, c *Command) Status {
	c.Verb, c.Delta = MetaArithmetic, 1
	c.Key, c.Args = token(rest)
	switch {
	case len(c.Key) == 0:
		return c.refuse(errUnknown)
	case len(c.Key) > MaxKey:
		return c.refuse(errFormat)
	case count(c.Args) > maxFlags-2:
		return c.refuse(errManyFlags)
	}
	if text := p.flags(c); text == errArithMode {
		return c.refuse(text)
	} else if text != "" {
		return c.refuse(errDeleteFlag)
	}
	return Ready
}

// metaDebug parses "me <key> [b]".
func (p *Parser) metaDebug(rest []byte, c *Command) Status {
	c.Verb = MetaDebug
	c.Key, rest = token(rest)
	if len(c.Key) == 0 || len(c.Key) > MaxKey {
		return c.refuse(errFormat)
	}
	if second, _ := token(rest); string(second) == "b" {
		n := decodeBase64(p.key[:], c.Key)
		if n == 0 {
			return c.refuse(errFormat)
		}
		c.Key, c.BinaryKey = p.key[:n], true
	}
	return Ready
}

func count(s []byte) (words int) {
	for word, rest := token(s); len(word) > 0; word, rest = token(rest) {
		words++
	}
	return words
}

// flags reads the flags in c.Args and returns the error to answer, "" if there is none. An unknown or repeated flag ends the reading at
// once; of the other mistakes the last one is reported, a bad F only if it is the only one. That is memcached's order.
func (p *Parser) flags(c *Command) (text string) {
	var seen [2]uint64
	opaque := 0
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		flag, value := word[0], word[1:]
		if flag >= 127 || seen[flag/64]&(1<<(flag%64)) != 0 {
			return errDuplicate
		}
		seen[flag/64] |= 1 << (flag % 64)
		switch flag {
		case 'O':
			opaque, c.HasOpaque = len(value), true
		case 'M':
			if len(value) != 1 {
				text = errModeLength
				break
			}
			c.Mode = Mode(value[0])
		default:
			mistake, known := p.flag(c, flag, value)
			if !known {
				return errInvalidFlag
			}
			if mistake != "" && (mistake != errFormat || text == "") {
				text = mistake
			}
		}
	}
	if text != "" {
		return text
	}
	return c.checkFlags(opaque)
}

// checkFlags is about what can only be judged once all flags are known. opaque is the length of the opaque.
func (c *Command) checkFlags(opaque int) (text string) {
	switch c.Verb {
	case MetaSet:
		switch c.Mode {
		case 0:
			c.Mode = ModeSet
		case ModeSet, ModeAdd, ModeAppend, ModePrepend, ModeReplace:
		default:
			return errMode
		}
	case MetaArithmetic:
		switch c.Mode {
		case 0, 'I', ModeIncrement:
			c.Mode = ModeIncrement
		case 'D', ModeDecrement:
			c.Mode = ModeDecrement
		default:
			return errArithMode
		}
	}
	if opaque <= MaxOpaque {
		return ""
	}
	if c.Verb == MetaGet || c.Verb == MetaArithmetic {
		c.LongOpaque = true
		return ""
	}
	return errOpaque
}

// flag notes one flag. memcached accepts the flags of every meta command with any of them and ignores those that mean nothing there.
func (p *Parser) flag(c *Command, flag byte, value []byte) (mistake string, known bool) {
	var ok bool
	switch flag {
	case 'c', 'f', 'h', 'k', 'l', 's', 't': // nothing to do but to answer them
	case 'b':
		n := decodeBase64(p.key[:], c.Key)
		if n == 0 {
			return errBadKey, true
		}
		c.Key, c.BinaryKey = p.key[:n], true
	case 'q':
		c.Quiet = true
	case 'u':
		c.NoUpdate = true
	case 'v':
		c.WantValue = true
	case 'L':
		// Without a number it asks for timings and no more.
		c.WantTimings = true
		c.sent(value)
	case 'P':
		c.demand(value)
	case 'F':
		if c.ClientFlags, ok = ParseUint32(value); !ok {
			return errFormat, true
		}
	case 'T':
		if c.Exptime, ok = ParseInt(value); !ok {
			return errBadToken, true
		}
		c.HasTTL = true
	case 'C':
		if c.CAS, ok = ParseUint64(value); !ok {
			return errBadToken, true
		}
		c.HasCAS = true
	case 'N':
		if c.Vivify, ok = ParseInt(value); !ok {
			return errBadToken, true
		}
		c.HasVivify = true
	case 'R':
		if c.Recache, ok = ParseInt(value); !ok {
			return errBadToken, true
		}
		c.HasRecache = true
	case 'I':
		c.Stale = true
	case 'D':
		if c.Delta, ok = ParseUint64(value); !ok {
			return errDelta, true
		}
	case 'J':
		if c.Initial, ok = ParseUint64(value); !ok {
			return errInitial, true
		}
	default:
		return "", false
	}
	return "", true
}

// metaNoop parses "mn [P<demand>] [L[<instant>]]". Whatever else stands there means nothing, as for memcached.
func (p *Parser) metaNoop(rest []byte, c *Command) Status {
	c.Verb, c.Args = MetaNoop, bytes.Trim(rest, " ")
	for word, more := token(c.Args); len(word) > 0; word, more = token(more) {
		switch word[0] {
		case 'P':
			c.demand(word[1:])
		case 'L':
			c.WantTimings = true
			c.sent(word[1:])
		}
	}
	return Ready
}

// demand reads "[<demand>][.<priority>]". What is anything else is some other proxy's token, which is none of our business.
func (c *Command) demand(value []byte) {
	first, second, two := bytes.Cut(value, dot)
	n, counted := parseDecimal(first)
	priority, ranked := parseDecimal(second)
	if !counted && len(first) > 0 || two != ranked || priority > math.MaxUint16 {
		return
	}
	c.Demand, c.HasDemand = uint32(min(n, 1<<31)), counted
	c.Priority, c.HasPriority = uint16(priority), ranked
}

// sent reads "<instant>[,<patience>]". What cannot be read is no instant.
func (c *Command) sent(value []byte) {
	instant, patience, more := bytes.Cut(value, comma)
	c.Sent, c.HasSent = parseDecimal(instant)
	if more && c.HasSent {
		c.Patience, c.HasSent = parseDecimal(patience)
	}
}
