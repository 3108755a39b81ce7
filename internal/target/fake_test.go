//go:build linux

package target

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is one command as the fake server read it.
type request struct {
	n      int    // position among the requests of the server, from 0
	conn   string // remote address
	verb   string
	key    string
	opaque string // with its O
	value  []byte
	args   []string
}

// hangUp, as a reply, closes the connection.
const hangUp = "\x00"

// fake is a server that speaks enough of the protocol for these tests and answers as it is told.
type fake struct {
	addr   string
	l      net.Listener
	answer func(r request) string // called by one goroutine at a time
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		n     int
		conns []net.Conn
	}
}

func newFake(t *testing.T, answer func(r request) string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: "memcached://" + l.Addr().String(), l: l, answer: answer}
	f.wg.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *fake) close() {
	_ = f.l.Close()
	f.mu.Lock()
	for _, c := range f.mu.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *fake) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.mu.conns = append(f.mu.conns, c)
		f.mu.Unlock()
		f.wg.Go(func() { f.serve(c); _ = c.Close() })
	}
}

func (f *fake) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		r := request{conn: c.RemoteAddr().String(), verb: words[0]}
		if r.verb == "version" {
			_, _ = io.WriteString(c, "VERSION 1.6.fake\r\n")
			continue
		}
		if len(words) > 1 {
			r.key = words[1]
		}
		r.args = words[1:]
		for _, w := range words[min(2, len(words)):] { // the classic commands have none
			if w[0] == 'O' {
				r.opaque = w
			}
		}
		if r.verb == "ms" {
			size, err := strconv.Atoi(words[2])
			if err != nil {
				return
			}
			r.value = make([]byte, size+2)
			if _, err := io.ReadFull(in, r.value); err != nil {
				return
			}
			r.value = r.value[:size]
		}
		f.mu.Lock()
		r.n = f.mu.n
		f.mu.n++
		reply := f.answer(r)
		f.mu.Unlock()
		if reply == hangUp {
			return
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// plain answers as memcached does when every key is stored.
func plain(r request) string {
	switch r.verb {
	case "mg":
		return "VA 3 s3 " + r.opaque + "\r\nabc\r\n"
	case "ms", "md":
		return "HD " + r.opaque + "\r\n"
	case "get":
		reply := ""
		for _, key := range r.args {
			if !strings.HasPrefix(key, "miss") {
				reply += "VALUE " + key + " 0 3\r\nabc\r\n"
			}
		}
		return reply + "END\r\n"
	}
	return "ERROR\r\n"
}

// client is a target together with what it settled.
type client struct {
	*MemcachedTarget
	t       *testing.T
	clock   *clock.Real
	settled []reqlog.Record
	seq     uint64
}

func newClient(t *testing.T, addr string, change func(c *Config)) *client {
	t.Helper()
	c := &client{t: t, clock: clock.NewReal()}
	cfg := Config{
		Addr: addr, Conns: 1, Clock: c.clock, Timeout: time.Minute, Spin: 20 * time.Microsecond,
		Settle: func(r *reqlog.Record) { c.settled = append(c.settled, *r) },
	}
	if change != nil {
		change(&cfg)
	}
	m, err := Memcached(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.MemcachedTarget = m
	t.Cleanup(func() {
		if c.MemcachedTarget != nil {
			c.close()
		}
	})
	return c
}

func (c *client) close() {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Error(err)
	}
	c.MemcachedTarget = nil
}

// issue hands over one operation of client number from and flushes.
func (c *client) issue(from uint32, kind workloads.Kind, key string) {
	now := c.clock.Now()
	rec := reqlog.Record{Seq: c.seq, Intended: now, Queued: -1, Service: -1, Kind: uint8(kind)}
	op := workloads.Op{Kind: kind}
	for i, k := range strings.Fields(key) {
		if i == 0 {
			op.Key = []byte(k)
		} else {
			op.More = append(op.More, []byte(k))
		}
	}
	rec.Keys = uint8(1 + len(op.More))
	if kind == workloads.Set {
		op.Value = []byte("value of " + key)
	}
	c.seq++
	c.Issue(now, &rec, &op, from)
	c.Flush(now)
}

// wait waits until n requests have been settled.
func (c *client) wait(n int) {
	c.t.Helper()
	c.until(func() bool { return len(c.settled) >= n })
	if len(c.settled) != n {
		c.t.Fatalf("%d requests were settled, want %d", len(c.settled), n)
	}
}

// until waits for something that Wait brings about.
func (c *client) until(done func() bool) {
	c.t.Helper()
	deadline := c.clock.Now().Add(20 * time.Second)
	for !done() {
		now := c.clock.Now()
		if now > deadline {
			c.t.Fatalf("nothing happened for 20 s; %d settled, %+v", len(c.settled), c.Counters())
		}
		c.Wait(now.Add(5 * time.Millisecond))
	}
}

// fates lists the fates of what was settled, in the order of issue.
func (c *client) fates() []string {
	all := make([]string, c.seq)
	for _, r := range c.settled {
		all[r.Seq] += r.Fate.String()
	}
	return all
}

// shout answers every connection with the same bytes and closes it, or keeps silent if there are none.
func shout(t *testing.T, what string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if what == "" {
					<-done
					return
				}
				_, _ = bufio.NewReader(c).ReadBytes('\n')
				if what != hangUp {
					_, _ = io.Copy(c, bytes.NewReader([]byte(what)))
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); close(done); wg.Wait() })
	return fmt.Sprintf("memcached://%s", l.Addr())
}
