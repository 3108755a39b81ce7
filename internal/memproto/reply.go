package memproto

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// maxReplyLine bounds a line of a reply. Longer ones are not memcached's.
const maxReplyLine = 4096

// ReplyKind says what a server answered.
type ReplyKind uint8

// The replies.
const (
	ReplyOther       ReplyKind = iota // a line of the classic protocol, as of version or stats; see Reply.Text
	ReplyValue                        // VA: a hit with its value
	ReplyOK                           // HD: stored, deleted, or a hit without its value
	ReplyMiss                         // EN
	ReplyNotFound                     // NF
	ReplyNotStored                    // NS
	ReplyExists                       // EX
	ReplyNoop                         // MN
	ReplyOverloaded                   // SERVER_ERROR overloaded REASON
	ReplyServerError                  // any other SERVER_ERROR
	ReplyClientError                  // CLIENT_ERROR
	ReplyError                        // ERROR
	ReplyItem                         // VALUE: one of the hits of a classic get, with its value
)

var replyNames = [...]string{"other", "VA", "HD", "EN", "NF", "NS", "EX", "MN", "overloaded", "SERVER_ERROR", "CLIENT_ERROR", "ERROR", "VALUE"}

// String names the kind, for messages.
func (k ReplyKind) String() string {
	if int(k) < len(replyNames) {
		return replyNames[k]
	}
	return "unknown"
}

// Reply is one parsed reply. Its slices are valid until the next call of Next or until the buffer changes.
type Reply struct {
	Kind      ReplyKind
	HasOpaque bool
	Opaque    uint64        // as it was sent with the Append functions
	Size      int           // of the value: from VA, else from the s flag; -1 where neither tells
	Credits   int32         // from P; -1 where absent
	Queued    time.Duration // from L, in whole microseconds except on the model ground; -1 where absent
	Service   time.Duration // likewise
	Leaves    int64         // from L, on the model ground: the modelled instant at which the reply left, in ns; 0 where absent
	Value     []byte        // of VA; nil when it was skipped
	Reason    []byte        // of an overloaded reply
	Text      []byte        // the line without its end
}

// ReplyParser turns the bytes that came from a server into replies. Values that arrive in pieces are skipped as they come in and never
// gathered, unless Keep is set.
type ReplyParser struct {
	Keep bool // gather values that arrive in pieces

	reply  Reply   // of which the value is still coming in
	left   int     // bytes of value and line end still to come
	tail   [2]byte // the last two bytes seen, which must be a line end
	kept   []byte
	inside bool
}

// Next parses the reply at the start of buf. n bytes have been used up, ok says that they complete a reply. With neither, more bytes
// are needed. An error means that the server does not speak this protocol, or that the two have fallen out of step; the connection
// is then of no more use.
func (p *ReplyParser) Next(buf []byte) (r Reply, n int, ok bool, err error) {
	if !p.inside {
		end := bytes.IndexByte(buf, '\n')
		if end < 0 {
			return Reply{}, 0, false, checkStart(buf)
		}
		line := bytes.TrimSuffix(buf[:end], []byte("\r"))
		// The rule for a line that has not ended holds for one that has: what is read must not depend on where the network cut it.
		if err = checkStart(line); err != nil {
			return Reply{}, 0, false, err
		}
		if r, err = parseReply(line); err != nil {
			return Reply{}, 0, false, err
		}
		n = end + 1
		if r.Kind != ReplyValue && r.Kind != ReplyItem {
			return r, n, true, nil
		}
		rest := buf[n:]
		if len(rest) >= r.Size+2 {
			r.Value = rest[:r.Size:r.Size]
			if rest[r.Size] != '\r' || rest[r.Size+1] != '\n' {
				return Reply{}, 0, false, errNoLineEnd(rest[r.Size : r.Size+2])
			}
			return r, n + r.Size + 2, true, nil
		}
		p.inside, p.left, p.kept = true, r.Size+2, p.kept[:0]
		r.Text = nil // points into a buffer that will be used again
		p.reply = r
	}
	took := p.value(buf[n:])
	n += took
	if p.left > 0 {
		return Reply{}, n, false, nil
	}
	p.inside = false
	if p.tail != [2]byte{'\r', '\n'} {
		return Reply{}, n, false, errNoLineEnd(p.tail[:])
	}
	r = p.reply
	if p.Keep {
		r.Value = p.kept[:r.Size]
	}
	return r, n, true, nil
}

// value takes in bytes of a value and its line end.
func (p *ReplyParser) value(buf []byte) int {
	n := min(p.left, len(buf))
	if p.Keep {
		p.kept = append(p.kept, buf[:n]...)
	}
	switch {
	case n >= 2:
		p.tail = [2]byte(buf[n-2 : n])
	case n == 1:
		p.tail = [2]byte{p.tail[1], buf[0]}
	}
	p.left -= n
	return n
}

func errNoLineEnd(got []byte) error {
	return fmt.Errorf("memcached protocol: a value ends in %q, not in a line end; reply and length disagree", got)
}

// checkStart looks at a line that may not have ended yet. What cannot become a reply is refused at once: waiting for its end could take
// for ever.
func checkStart(buf []byte) error {
	if len(buf) > maxReplyLine || len(buf) > 0 && (buf[0] < 'A' || buf[0] > 'Z') {
		return errNotMemcached(buf)
	}
	return nil
}

func errNotMemcached(line []byte) error {
	return fmt.Errorf("not a reply of the memcached protocol: %q", line[:min(len(line), 40)])
}

// parseReply parses a line.
func parseReply(line []byte) (Reply, error) {
	r := Reply{Size: -1, Credits: -1, Queued: -1, Service: -1, Text: line}
	word, rest := token(line)
	switch string(word) {
	case "VA":
		r.Kind = ReplyValue
		size, flags := token(rest)
		v, ok := parseDecimal(size)
		if !ok || v > math.MaxInt32 {
			return Reply{}, errNotMemcached(line)
		}
		err := r.flags(flags, line)
		r.Size = int(v)
		return r, err
	case "VALUE":
		return r, r.parseItem(rest, line)
	case "HD":
		r.Kind = ReplyOK
	case "EN":
		r.Kind = ReplyMiss
	case "NF":
		r.Kind = ReplyNotFound
	case "NS":
		r.Kind = ReplyNotStored
	case "EX":
		r.Kind = ReplyExists
	case "MN":
		r.Kind = ReplyNoop
	case "SERVER_ERROR":
		r.Kind = ReplyServerError
		if second, more := token(rest); string(second) == "overloaded" {
			r.Kind = ReplyOverloaded
			r.Reason, rest = token(more)
			return r, r.flags(rest, line)
		}
		return r, nil
	case "CLIENT_ERROR":
		r.Kind = ReplyClientError
		return r, nil
	case "ERROR":
		r.Kind = ReplyError
		return r, nil
	case "VERSION", "STAT", "END", "RESET", "OK", "STORED", "NOT_STORED", "EXISTS", "NOT_FOUND", "DELETED", "TOUCHED":
		return r, nil
	default:
		return Reply{}, errNotMemcached(line)
	}
	return r, r.flags(rest, line)
}

// flags reads the flags that a client of ours may have asked for and passes over all others.
func (r *Reply) flags(rest, line []byte) error {
	for word, rest := token(rest); len(word) > 0; word, rest = token(rest) {
		value := word[1:]
		switch word[0] {
		case 'O':
			if r.Opaque, r.HasOpaque = parseHex(value); !r.HasOpaque {
				return errNotMemcached(line)
			}
		case 's':
			if v, ok := parseDecimal(value); ok && v <= math.MaxInt32 {
				r.Size = int(v)
			}
		case 'P':
			if v, ok := parseDecimal(value); ok && v <= math.MaxInt32 {
				r.Credits = int32(v)
			}
		case 'L':
			r.timings(value)
		}
	}
	return nil
}

// timings reads "<queue µs>,<service µs>[,<instant ns>]". What it cannot read it leaves out.
func (r *Reply) timings(value []byte) {
	first, rest, _ := bytes.Cut(value, comma)
	second, third, more := bytes.Cut(rest, comma)
	queued, ok1 := parseMicros(first)
	service, ok2 := parseMicros(second)
	if !ok1 || !ok2 {
		return
	}
	r.Queued, r.Service = queued, service
	if leaves, ok := parseDecimal(third); more && ok {
		r.Leaves = leaves
	}
}

var comma = []byte{','}

// parseMicros reads microseconds with up to three decimals.
func parseMicros(tok []byte) (time.Duration, bool) {
	whole, fraction, dotted := bytes.Cut(tok, dot)
	v, ok := parseDecimal(whole)
	if !ok || v > math.MaxInt64/1000-1 {
		return 0, false
	}
	d := time.Duration(v) * time.Microsecond
	if !dotted {
		return d, true
	}
	if ns, ok := parseDecimal(fraction); ok && len(fraction) <= 3 {
		for i := len(fraction); i < 3; i++ {
			ns *= 10
		}
		return d + time.Duration(ns), true
	}
	return 0, false
}

var dot = []byte{'.'}

func parseHex(tok []byte) (v uint64, ok bool) {
	if len(tok) == 0 || len(tok) > 16 {
		return 0, false
	}
	for _, b := range tok {
		var d byte
		switch {
		case b >= '0' && b <= '9':
			d = b - '0'
		case b >= 'a' && b <= 'f':
			d = b - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(d)
	}
	return v, true
}
