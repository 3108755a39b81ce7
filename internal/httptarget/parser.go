//go:build linux

package httptarget

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"spillway/control"
)

const (
	// maxHead bounds the bytes of a reply's status line, headers and trailers, interim replies included.
	maxHead = 64 << 10
	// maxChunkLine bounds the line before a chunk: a size in hexadecimal, and extensions that nobody uses.
	maxChunkLine = 1 << 10
)

var (
	errHead     = errors.New("the head of the reply is too long")
	errStatus   = errors.New("the reply does not begin with the status line of HTTP/1.0 or 1.1")
	errHeader   = errors.New("a header line is malformed")
	errLength   = errors.New("the length of the reply is malformed, or said twice and differently")
	errCoding   = errors.New("the reply has a transfer coding other than chunked, or a length beside it")
	errChunk    = errors.New("a chunk of the reply is malformed")
	errUpgraded = errors.New("the server switches to a protocol that nobody asked for")
)

// where says which part of a reply comes next.
type where uint8

const (
	inStatus where = iota
	inHeaders
	inBody // of a known length
	toEnd  // of the connection
	inChunkSize
	inChunk
	inChunkEnd
	inTrailers
)

// answer is what a reply has said so far.
type answer struct {
	status  int
	close   bool           // the connection ends with this reply
	reason  control.Reason // of a request that was shed; NoReason when none is said
	queued  time.Duration  // -1 when it is not said
	service time.Duration  // likewise
}

// parser takes replies of HTTP/1.x apart, one after the other, wherever the network cuts them. It keeps nothing of a body. A reply that two
// readers could understand differently is an error: what follows it on the connection could not be trusted.
type parser struct {
	answer
	at      where
	line    []byte // the beginning of a line of which the end has not come
	head    int    // bytes of the head so far
	left    int64  // bytes of the body or chunk that are to come
	length  int64  // said by Content-Length; -1 when it is not
	chunked bool
	old     bool // HTTP/1.0
	kept    bool // it says keep-alive, which only HTTP/1.0 has to
}

// begin makes the parser ready for the next reply.
func (p *parser) begin() {
	*p = parser{answer: answer{queued: -1, service: -1}, line: p.line[:0], length: -1}
}

// feed takes what has come, and returns how much of it belongs to this reply; done says that the reply is whole.
func (p *parser) feed(data []byte) (n int, done bool, err error) {
	for n < len(data) {
		switch p.at {
		case inBody, inChunk:
			take := min(p.left, int64(len(data)-n))
			p.left -= take
			n += int(take)
			if p.left > 0 {
				return n, false, nil
			}
			if p.at == inBody {
				return n, true, nil
			}
			p.at = inChunkEnd
			continue
		case toEnd:
			return len(data), false, nil
		}
		line, used, whole := p.cut(data[n:])
		n += used
		if err := p.bound(used); err != nil || !whole {
			return n, false, err
		}
		done, err = p.take(line)
		p.line = p.line[:0]
		if done || err != nil {
			return n, done, err
		}
	}
	return n, false, nil
}

// end takes note that the connection has ended, and returns whether the reply is whole.
func (p *parser) end() bool { return p.at == toEnd }

// begun reports whether anything of the reply has come.
func (p *parser) begun() bool { return p.at != inStatus || p.head > 0 }

// cut returns the line at the front of data, without its end, joined with what came of it before.
func (p *parser) cut(data []byte) (line []byte, used int, whole bool) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		p.line = append(p.line, data[:min(len(data), maxHead+1-len(p.line))]...)
		return nil, len(data), false
	}
	line = data[:end]
	if len(p.line) > 0 {
		p.line = append(p.line, line[:min(len(line), maxHead+1-len(p.line))]...)
		line = p.line
	}
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line, end + 1, true
}

// bound counts bytes of lines, and refuses what is too long.
func (p *parser) bound(n int) error {
	switch p.at {
	case inChunkSize, inChunkEnd:
		if len(p.line) > maxChunkLine {
			return errChunk
		}
		return nil
	}
	if p.head += n; p.head > maxHead {
		return errHead
	}
	return nil
}

// take takes one line in; done says that the reply ends with it.
func (p *parser) take(line []byte) (done bool, err error) {
	switch p.at {
	case inStatus:
		return false, p.takeStatus(line)
	case inHeaders:
		if len(line) == 0 {
			return p.endOfHead()
		}
		return false, p.takeHeader(line)
	case inChunkSize:
		return false, p.takeChunkSize(line)
	case inChunkEnd:
		if len(line) > 0 {
			return false, errChunk
		}
		p.at = inChunkSize
		return false, nil
	default: // trailers, which say nothing that is of use here
		if len(line) == 0 {
			return true, nil
		}
		_, _, err := splitHeader(line)
		return false, err
	}
}

func (p *parser) takeStatus(line []byte) error {
	const shortest = len("HTTP/1.1 200")
	if len(line) < shortest || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' {
		return errStatus
	}
	status := 0
	for _, d := range line[9:shortest] {
		if d < '0' || d > '9' {
			return errStatus
		}
		status = 10*status + int(d-'0')
	}
	if status < 100 || len(line) > shortest && line[shortest] != ' ' {
		return errStatus
	}
	p.old, p.status, p.at = line[7] == '0', status, inHeaders
	return nil
}

// splitHeader takes a header line apart. A line that goes on with the one before, which HTTP has given up, is refused.
func splitHeader(line []byte) (name, value []byte, err error) {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 {
		return nil, nil, errHeader
	}
	name, value = line[:colon], trim(line[colon+1:])
	for _, b := range name {
		if !token[b] {
			return nil, nil, errHeader
		}
	}
	for _, b := range value {
		if b == '\r' || b == 0 {
			return nil, nil, errHeader
		}
	}
	return name, value, nil
}

// The headers that matter. Those of our own are also what package servers/web writes.
var (
	headLength     = []byte("content-length")
	headCoding     = []byte("transfer-encoding")
	headConnection = []byte("connection")
	headTiming     = []byte("server-timing")
	headReason     = []byte("x-shed-reason")

	wordChunked = []byte("chunked")
	wordClose   = []byte("close")
	wordKeep    = []byte("keep-alive")
	wordQueue   = []byte("queue")
	wordService = []byte("service")
)

func (p *parser) takeHeader(line []byte) error {
	name, value, err := splitHeader(line)
	if err != nil {
		return err
	}
	switch {
	case bytes.EqualFold(name, headLength):
		length, ok := number(value)
		if !ok || p.length >= 0 && p.length != length {
			return errLength
		}
		p.length = length
	case bytes.EqualFold(name, headCoding):
		if p.chunked || !bytes.EqualFold(value, wordChunked) {
			return errCoding
		}
		p.chunked = true
	case bytes.EqualFold(name, headConnection):
		for word := range words(value) {
			p.close = p.close || bytes.EqualFold(word, wordClose)
			p.kept = p.kept || bytes.EqualFold(word, wordKeep)
		}
	case bytes.EqualFold(name, headReason):
		p.reason, _ = control.ParseReason(value)
	case bytes.EqualFold(name, headTiming):
		p.takeTimings(value)
	}
	return nil
}

// takeTimings reads the metrics queue and service of a Server-Timing header (W3C), whose durations are milliseconds.
func (p *parser) takeTimings(value []byte) {
	for entry := range words(value) {
		name, rest, _ := bytes.Cut(entry, []byte(";"))
		_, text, found := bytes.Cut(rest, []byte("dur="))
		text, _, _ = bytes.Cut(text, []byte(";"))
		d, ok := milliseconds(trim(text))
		if !found || !ok {
			continue
		}
		switch name = trim(name); {
		case bytes.EqualFold(name, wordQueue):
			p.queued = d
		case bytes.EqualFold(name, wordService):
			p.service = d
		}
	}
}

// endOfHead decides how the body is delimited (RFC 9112, section 6.3).
func (p *parser) endOfHead() (done bool, err error) {
	switch {
	case p.status == 101:
		return false, errUpgraded
	case p.status < 200: // an interim reply, with the real one to follow
		head := p.head
		p.begin()
		p.head = head
		return false, nil
	case p.chunked && (p.length >= 0 || p.old):
		return false, errCoding
	}
	p.close = p.close || p.old && !p.kept
	switch {
	case p.status == 204 || p.status == 304 || p.length == 0:
		return true, nil
	case p.chunked:
		p.at = inChunkSize
	case p.length > 0:
		p.at, p.left = inBody, p.length
	default:
		p.at, p.close = toEnd, true
	}
	return false, nil
}

func (p *parser) takeChunkSize(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = trim(digits)
	const most = 15 // hexadecimal digits of what fits an int64
	if len(digits) == 0 || len(digits) > most {
		return errChunk
	}
	size := int64(0)
	for _, d := range digits {
		v, ok := hexDigit(d)
		if !ok {
			return errChunk
		}
		size = size<<4 | v
	}
	if p.at, p.left = inChunk, size; size == 0 {
		p.at = inTrailers
	}
	return nil
}

// String says what the reply is, for an error message.
func (a *answer) String() string {
	if a.reason != control.NoReason {
		return fmt.Sprintf("status %d (%s)", a.status, a.reason)
	}
	return fmt.Sprintf("status %d", a.status)
}
