package memproto

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
	length, ok := parseInt(size)
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
	var mode byte
	opaque := 0
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		flag, value := word[0], word[1:]
		if flag >= 127 || seen[flag/64]&(1<<(flag%64)) != 0 {
			return errDuplicate
		}
		seen[flag/64] |= 1 << (flag % 64)
		switch flag {
		case 'O':
			opaque = len(value)
		case 'M':
			if len(value) != 1 {
				text = errModeLength
				break
			}
			mode = value[0]
		case 'I':
			if c.Verb != MetaGet {
				return errInvalidFlag // marking items stale comes with the other commands that know of it
			}
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
	switch {
	case text != "":
		return text
	case c.Verb == MetaSet && mode != 0 && mode != 'S':
		return errMode
	case opaque > MaxOpaque:
		return errOpaque
	}
	return ""
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
		c.WantTimings = true
	case 'P':
		// Not a number: some other proxy's token, which is none of our business.
		if n, plain := parseDecimal(value); plain {
			c.Demand, c.HasDemand = uint32(min(n, 1<<31)), true
		}
	case 'F':
		if c.ClientFlags, ok = parseUint32(value); !ok {
			return errFormat, true
		}
	case 'T':
		if c.Exptime, ok = parseInt(value); !ok {
			return errBadToken, true
		}
		c.HasTTL = true
	case 'C':
		if c.CAS, ok = parseUint64(value); !ok {
			return errBadToken, true
		}
		c.HasCAS = true
	case 'D':
		if _, ok = parseUint64(value); !ok {
			return errDelta, true
		}
	case 'J':
		if _, ok = parseUint64(value); !ok {
			return errInitial, true
		}
	default:
		return "", false
	}
	return "", true
}
