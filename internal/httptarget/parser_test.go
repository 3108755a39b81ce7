//go:build linux

package httptarget

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/control"
)

// whole parses one reply that comes in pieces of a size, and returns how many bytes it took.
func whole(p *parser, text string, piece int) (n int, done bool, err error) {
	p.begin()
	for n < len(text) {
		end := min(len(text), n+piece)
		for n < end {
			used, done, err := p.feed([]byte(text[n:end]))
			n += used
			if done || err != nil {
				return n, done, err
			}
		}
	}
	return n, p.end(), nil
}

func TestReplies(t *testing.T) {
	t.Parallel()
	none := answer{queued: -1, service: -1}
	with := func(f func(*answer)) answer {
		a := none
		f(&a)
		return a
	}
	ok := func(a *answer) { a.status = 200 }
	for _, c := range []struct {
		name, text string
		rest       string // what belongs to the next reply
		want       answer
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1", with(ok)},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", "x", with(func(a *answer) { a.status = 204 })},
		{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", "", with(func(a *answer) { a.status = 304 })},
		{"no phrase", "HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", "", with(ok)},
		{"bare line ends", "HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "", with(ok)},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n", "H", with(ok)},
		{"close", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\na", "", with(func(a *answer) { a.status, a.close = 200, true })},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\nanything\r\n\r\n", "", with(func(a *answer) { a.status, a.close = 200, true })},
		{"old", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "", with(func(a *answer) { a.status, a.close = 200, true })},
		{"old and kept", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", "", with(ok)},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nServer-Timing: queue;dur=1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", with(ok)},
		{"length said twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "", with(ok)},
		{
			"shed", "HTTP/1.1 503 Service Unavailable\r\nX-Shed-Reason: codel\r\nServer-Timing: queue;dur=1.25, service;desc=\"x\";dur=0.0005\r\nContent-Length: 0\r\n\r\n", "",
			answer{status: 503, reason: control.CoDel, queued: 1250 * time.Microsecond, service: 500},
		},
		{"foreign timings", "HTTP/1.1 200 OK\r\nServer-Timing: db;dur=3, queue, service;dur=x\r\nContent-Length: 0\r\n\r\n", "", with(ok)},
	} {
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			var p parser
			n, done, err := whole(&p, c.text+c.rest, piece)
			if err != nil || !done || n != len(c.text) && !p.end() {
				t.Errorf("%s in pieces of %d: %d of %d bytes, done %v, %v", c.name, piece, n, len(c.text), done, err)
			}
			if diff := cmp.Diff(c.want, p.answer, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("%s in pieces of %d (-want +got):\n%s", c.name, piece, diff)
			}
		}
	}
}

func TestMalformedReplies(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for text, want := range map[string]error{
		"SSH-2.0-OpenSSH\r\n":                                                           errStatus,
		"HTTP/2.0 200 OK\r\n":                                                           errStatus,
		"HTTP/1.1 20 OK\r\n":                                                            errStatus,
		"HTTP/1.1 2000\r\n":                                                             errStatus,
		"HTTP/1.1 099 x\r\n":                                                            errStatus,
		ok + " folded\r\n":                                                              errHeader,
		ok + "no colon\r\n":                                                             errHeader,
		ok + "a b: c\r\n":                                                               errHeader,
		ok + "Content-Length : 1\r\n":                                                   errHeader,
		ok + "a: b\rc\r\n":                                                              errHeader,
		ok + "Content-Length: +1\r\n":                                                   errLength,
		ok + "Content-Length: 1, 1\r\n":                                                 errLength,
		ok + "Content-Length: 1\r\nContent-Length: 2\r\n":                               errLength,
		ok + "Content-Length: 9999999999999999999\r\n":                                  errLength,
		ok + "Transfer-Encoding: gzip, chunked\r\n":                                     errCoding,
		ok + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n":                  errCoding,
		ok + "Transfer-Encoding: chunked\r\n\r\nx\r\n":                                  errChunk,
		ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n":                                 errChunk,
		ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n":                            errChunk,
		ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n":                   errChunk,
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                      errUpgraded,
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n":                         errCoding,
		ok + "a: " + strings.Repeat("b", maxHead) + "\r\n":                              errHead,
		ok + strings.Repeat("a: b\r\n", maxHead/6):                                      errHead,
		ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 2*maxChunkLine): errChunk,
	} {
		for _, piece := range []int{1, 5, 1 << 20} {
			var p parser
			if _, _, err := whole(&p, text, piece); !errors.Is(err, want) {
				t.Errorf("%.60q in pieces of %d: %v, want %v", text, piece, err, want)
			}
		}
	}
}

func TestParserAllocatesNothing(t *testing.T) {
	reply := []byte("HTTP/1.1 200 OK\r\nServer-Timing: queue;dur=0.012, service;dur=1.5\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello")
	var p parser
	p.line = make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		p.begin()
		for i := 0; i < len(reply); i += 10 {
			if _, _, err := p.feed(reply[i:min(len(reply), i+10)]); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations a reply", n)
	}
}

// FuzzReplies holds the parser against itself, whatever the pieces, and against net/http: where both take a reply, they find the same status
// and the same end.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 x\r\nX-Shed-Reason: budget\r\nServer-Timing: queue;dur=1.5\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nall", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		var once, cut parser
		n1, done1, err1 := whole(&once, string(text), len(text)+1)
		n2, done2, err2 := whole(&cut, string(text), max(int(piece), 1))
		if (err1 == nil) != (err2 == nil) || err1 == nil && (n1 != n2 || done1 != done2 || once.answer != cut.answer) {
			t.Fatalf("%q: at once %d %v %v, in pieces %d %v %v", text, n1, done1, err1, n2, done2, err2)
		}
		if err1 != nil || !done1 || text[len("HTTP/1.1 ")] == '1' { // net/http leaves interim replies to its caller
			return
		}
		in := bytes.NewReader(text)
		buffered := bufio.NewReaderSize(in, len(text)+16)
		r, err := http.ReadResponse(buffered, nil)
		if err != nil {
			return
		}
		if r.StatusCode != once.status {
			t.Fatalf("%q: status %d, net/http says %d", text, once.status, r.StatusCode)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if end := len(text) - in.Len() - buffered.Buffered(); end != n1 {
			t.Fatalf("%q: ends after %d bytes, net/http says %d", text, n1, end)
		}
	})
}
