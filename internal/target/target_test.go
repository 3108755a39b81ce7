//go:build linux

package target

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

func TestRepliesInOrder(t *testing.T) {
	t.Parallel()
	conns := map[string]string{} // client → connection
	f := newFake(t, func(r request) string {
		from, what, _ := strings.Cut(r.key, ":")
		if conns[from] == "" {
			conns[from] = r.conn
		}
		if conns[from] != r.conn {
			return "SERVER_ERROR client moved\r\n"
		}
		if what == "miss" {
			return map[string]string{"mg": "EN\r\n", "md": "NF " + r.opaque + "\r\n"}[r.verb]
		}
		return plain(r)
	})
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Conns = 3 })
	const rounds = 40
	for range rounds {
		for from := range uint32(4) {
			c.issue(from, workloads.Get, fmt.Sprintf("%d:hit", from))
			c.issue(from, workloads.Get, fmt.Sprintf("%d:miss", from))
			c.issue(from, workloads.Set, fmt.Sprintf("%d:hit", from))
			c.issue(from, workloads.Delete, fmt.Sprintf("%d:miss", from))
		}
	}
	c.wait(16 * rounds)
	hits := 0
	for _, r := range c.settled {
		if r.Fate != reqlog.OK || r.Attempts != 1 || r.Sent < r.Intended || r.Done <= r.Sent || r.Queued != -1 || r.Service != -1 {
			t.Fatalf("%+v", r)
		}
		if r.Hits > 0 {
			hits++
			if workloads.Kind(r.Kind) != workloads.Get || r.BytesIn != uint32(len("VA 3 s3 O\r\nabc\r\n")+len(fmt.Sprintf("%x", r.Seq))) {
				t.Fatalf("%+v", r)
			}
		}
		if workloads.Kind(r.Kind) == workloads.Set && r.BytesOut < uint32(len("ms 0:hit 14 O\r\nvalue of 0:hit\r\n")) {
			t.Fatalf("%+v", r)
		}
	}
	if hits != 4*rounds {
		t.Errorf("%d hits, want %d", hits, 4*rounds)
	}
	f.mu.Lock() // what the server's goroutine wrote
	defer f.mu.Unlock()
	if len(conns) != 4 || conns["0"] != conns["3"] || conns["0"] == conns["1"] || conns["1"] == conns["2"] {
		t.Errorf("clients and their connections: %v", conns)
	}
	if c.Counters() != (load.Counters{}) {
		t.Errorf("%+v", c.Counters())
	}
}

func TestRefusalsAndErrors(t *testing.T) {
	t.Parallel()
	type row struct{ Reply, Fate, Reason string }
	var want []row
	for r := control.NoReason + 1; r < control.NumReasons; r++ {
		rec := reqlog.Record{}
		load.Judge(&rec, load.Reply{Outcome: load.Shed, Reason: r}, 0)
		want = append(want, row{"SERVER_ERROR overloaded " + r.String(), rec.Fate.String(), r.String()})
	}
	want = append(want,
		row{"SERVER_ERROR overloaded limit P5", "rejected", "limit"},
		row{"SERVER_ERROR overloaded codel L7,0", "dropped", "codel"},
		row{"SERVER_ERROR overloaded by_the_moon", "failed", "none"},
		row{"SERVER_ERROR out of memory storing object", "failed", "none"},
		row{"CLIENT_ERROR bad command line format", "failed", "none"},
		row{"ERROR", "failed", "none"},
		row{"HD", "ok", "none"}, // a server that reads the value but sends the header alone
		row{"EN", "ok", "none"},
	)
	f := newFake(t, func(r request) string { return want[r.n].Reply + "\r\n" })
	c := newClient(t, f.addr, nil)
	for range want {
		c.issue(0, workloads.Get, "k")
	}
	c.wait(len(want))
	var got []row
	for i, r := range c.settled {
		got = append(got, row{want[i].Reply, r.Fate.String(), control.Reason(r.Reason).String()})
		if (r.Hits > 0) != (want[i].Reply == "HD") {
			t.Errorf("%s: hit %v", want[i].Reply, r.Hits)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := c.Counters(); n != (load.Counters{}) {
		t.Errorf("an error is an answer; the connection stays: %+v", n)
	}
}

func TestTimings(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(r request) string { return "HD " + r.opaque + " L12,34\r\n" })
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Timings = true })
	c.issue(0, workloads.Get, "k")
	c.wait(1)
	if r := c.settled[0]; r.Queued != 12*time.Microsecond || r.Service != 34*time.Microsecond {
		t.Errorf("queued %v, service %v", r.Queued, r.Service)
	}
}

func TestSLO(t *testing.T) {
	t.Parallel()
	f := newFake(t, plain)
	c := newClient(t, f.addr, func(cfg *Config) { cfg.SLOs = []time.Duration{1} })
	c.issue(0, workloads.Get, "k")
	c.wait(1)
	if got := c.settled[0].Fate; got != reqlog.Late {
		t.Errorf("a nanosecond was kept: %v", got)
	}
}

// TestTimedOutRepliesAreMatched: the reply to a request that nobody waits for any more must not be taken for that of the next.
func TestTimedOutRepliesAreMatched(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFake(t, func(r request) string {
		if r.n < 2 {
			<-release
		}
		return plain(r)
	})
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Timeout = 30 * time.Millisecond })
	c.issue(0, workloads.Get, "a")
	c.issue(0, workloads.Get, "b")
	c.wait(2)
	for _, r := range c.settled {
		if r.Fate != reqlog.TimedOut || r.Latency() < 30*time.Millisecond || r.Sent == 0 {
			t.Errorf("%+v", r)
		}
	}
	c.cfg.Timeout = time.Minute // the next one has time
	close(release)
	c.issue(0, workloads.Get, "c")
	c.wait(3)
	if diff := cmp.Diff([]string{"timed_out", "timed_out", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	if n := c.Counters(); n != (load.Counters{LateAfter: 2, TimedOutReply: 2}) {
		t.Errorf("%+v", n)
	}
}

func TestLostConnectionComesBack(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(r request) string {
		if r.n == 2 {
			return hangUp
		}
		return plain(r)
	})
	c := newClient(t, f.addr, nil)
	now := c.clock.Now()
	for i := range uint64(5) { // in one write, so that all are under way when the connection ends
		c.Issue(now, &reqlog.Record{Seq: i, Intended: now}, &workloads.Op{Key: []byte("k")}, 0)
	}
	c.Flush(now)
	c.seq = 5
	c.wait(5)
	if c.conns[0].State == poll.Up {
		t.Fatal("the connection is still there")
	}
	c.issue(0, workloads.Get, "k") // nobody to send it to, and it is told at once
	c.wait(6)
	c.until(func() bool { return c.conns[0].State == poll.Up })
	c.issue(0, workloads.Get, "k")
	c.wait(7)
	if diff := cmp.Diff([]string{"ok", "ok", "failed", "failed", "failed", "failed", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	for _, r := range c.settled {
		if r.Sent == 0 || r.Done < r.Sent {
			t.Errorf("%+v", r)
		}
	}
	if n := c.Counters(); n != (load.Counters{Lost: 1, Reconnects: 1}) {
		t.Errorf("%+v", n)
	}
}

// TestServerGone: a server that does not come back is left in peace more and more.
func TestServerGone(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(request) string { return hangUp })
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Conns = 2 })
	f.close()
	c.until(func() bool { return c.counters.Lost == 2 })
	hand := &handClock{now: c.clock.Now()}
	c.cfg.Clock = hand
	var pauses []time.Duration
	for range 12 {
		conn := c.conns[0]
		for conn.State == poll.Down && hand.now < conn.retryAt {
			pauses = append(pauses, conn.backoff)
			hand.now = conn.retryAt
		}
		for range 1000 { // the refusal comes as an event, at once
			c.Wait(hand.now)
			if conn.State == poll.Down && conn.retryAt > hand.now {
				break
			}
		}
	}
	for i, p := range pauses {
		if want := min(time.Millisecond<<i, time.Second); p != want {
			t.Fatalf("pauses %v", pauses)
		}
	}
	if len(pauses) < 12 || c.counters.Reconnects != 0 {
		t.Errorf("pauses %v, %+v", pauses, c.counters)
	}
	c.issue(0, workloads.Get, "k")
	if diff := cmp.Diff([]string{"failed"}, c.fates()); diff != "" {
		t.Error(diff)
	}
}

type handClock struct{ now clock.Instant }

func (h *handClock) Now() clock.Instant { return h.now }

func TestOutOfStep(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]func(r request) string{
		"another opaque":     func(r request) string { return "VA 3 s3 Offff\r\nabc\r\n" },
		"one reply too many": func(r request) string { return plain(r) + plain(r) },
		"not this protocol":  func(r request) string { return "HTTP/1.1 200 OK\r\n\r\n" },
		"unasked for":        func(r request) string { return "MN\r\n" },
		"endless line":       func(r request) string { return strings.Repeat("x", 3*readBytes) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(r request) string {
				if r.n == 1 {
					return reply(r)
				}
				return plain(r)
			})
			c := newClient(t, f.addr, nil)
			c.issue(0, workloads.Get, "a")
			c.wait(1)
			c.issue(0, workloads.Get, "b")
			c.until(func() bool { return c.counters.Lost == 1 })
			want := []string{"ok", "failed"}
			if name == "one reply too many" { // the first of the two was right
				want[1] = "ok"
			}
			if diff := cmp.Diff(want, c.fates()); diff != "" {
				t.Error(diff)
			}
			if c.counters.OutOfStep != 1 {
				t.Errorf("%+v", c.counters)
			}
			c.until(func() bool { return c.conns[0].State == poll.Up })
			c.issue(0, workloads.Get, "c")
			c.wait(3)
			if got := c.fates()[2]; got != "ok" {
				t.Errorf("after the reconnection: %s", got)
			}
		})
	}
}

func TestLargeRepliesAreNotBuffered(t *testing.T) {
	t.Parallel()
	const size = 1_200_000
	value := strings.Repeat("v", size)
	f := newFake(t, func(r request) string { return fmt.Sprintf("VA %d s%d %s\r\n%s\r\n", size, size, r.opaque, value) })
	c := newClient(t, f.addr, nil)
	for range 20 {
		c.issue(0, workloads.Get, "k")
	}
	c.wait(20)
	for _, r := range c.settled {
		head := fmt.Sprintf("VA %d s%d O%x\r\n", size, size, r.Seq)
		if r.Fate != reqlog.OK || r.Hits != 1 || r.BytesIn != uint32(len(head)+size+2) {
			t.Errorf("%+v", r)
		}
	}
	if n := cap(c.conns[0].rest); n > readBytes {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestWindowFull(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFake(t, func(r request) string { <-release; return plain(r) })
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Window = 4; cfg.Conns = 2 })
	for range 5 {
		c.issue(0, workloads.Get, "k")
	}
	c.issue(1, workloads.Get, "k") // the other connection has room
	c.wait(1)
	if r := c.settled[0]; r.Seq != 4 || r.Fate != reqlog.Unsent || r.Sent != 0 || r.Attempts != 0 {
		t.Errorf("%+v", r)
	}
	if c.counters.WindowFull != 1 {
		t.Errorf("%+v", c.counters)
	}
	close(release)
	c.wait(6)
	c.issue(0, workloads.Get, "k")
	c.wait(7)
	if got := c.fates()[6]; got != "ok" {
		t.Errorf("with room again: %s", got)
	}
}

// TestServerReadsNothing: what the kernel does not take is held back up to a bound, and goes out when the server reads again.
func TestServerReadsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFake(t, func(r request) string { <-release; return plain(r) })
	c := newClient(t, f.addr, nil)
	value := make([]byte, 200_000)
	issued := 0
	for c.counters.WindowFull == 0 {
		if issued++; issued > 1000 {
			t.Fatal("200 MB were taken from us")
		}
		now := c.clock.Now()
		c.Issue(now, &reqlog.Record{Seq: c.seq, Intended: now, Kind: uint8(workloads.Set)}, &workloads.Op{Kind: workloads.Set, Key: []byte("k"), Value: value}, 0)
		c.Flush(now)
		c.seq++
	}
	if c.counters.SocketFull == 0 || cap(c.conns[0].out) > 4*maxUnwritten {
		t.Errorf("%+v, %d bytes of buffer", c.counters, cap(c.conns[0].out))
	}
	close(release)
	c.wait(issued)
	for i, fate := range c.fates() {
		if want := map[bool]string{true: "unsent", false: "ok"}[i == issued-1]; fate != want {
			t.Errorf("request %d of %d: %s", i+1, issued, fate)
		}
	}
}

func TestCloseSettlesWhatIsPending(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFake(t, func(request) string { <-release; return hangUp })
	defer close(release)
	c := newClient(t, f.addr, nil)
	c.issue(0, workloads.Get, "a")
	now := c.clock.Now()
	c.Issue(now, &reqlog.Record{Seq: 1, Intended: now}, &workloads.Op{Key: []byte("b")}, 0) // not flushed
	c.seq = 2
	c.close()
	if diff := cmp.Diff([]string{"timed_out", "timed_out"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	for _, r := range c.settled {
		if r.Sent == 0 || r.Done < r.Sent {
			t.Errorf("%+v", r)
		}
	}
}

func TestWaitEndsInTime(t *testing.T) {
	t.Parallel()
	f := newFake(t, plain)
	for _, spin := range []time.Duration{0, 30 * time.Microsecond, load.SpinAlways} {
		c := newClient(t, f.addr, func(cfg *Config) { cfg.Spin = spin })
		until := c.clock.Now().Add(2 * time.Millisecond)
		c.Wait(until)
		if now := c.clock.Now(); now < until {
			t.Errorf("spin %v: back %v early without a reply", spin, until.Sub(now))
		}
	}
}

func TestMemcachedRefuses(t *testing.T) {
	t.Parallel()
	good := Config{Addr: "memcached://127.0.0.1:1", Conns: 1, Clock: clock.NewReal(), Timeout: 1, Settle: func(*reqlog.Record) {}}
	for want, change := range map[string]func(c *Config){
		"at least one":       func(c *Config) { c.Conns = 0 },
		"window of -1":       func(c *Config) { c.Window = -1 },
		"window of 70000":    func(c *Config) { c.Window = 70_000 },
		"at most 70000":      func(c *Config) { c.MaxConns = 70_000 },
		"must not fall":      func(c *Config) { c.Conns, c.MaxConns = 3, 2 },
		"each sender":        func(c *Config) { c.Shards = 2 },
		"longer than 0":      func(c *Config) { c.Timeout = 0 },
		"a clock":            func(c *Config) { c.Clock = nil },
		"connection refused": func(c *Config) {},
	} {
		cfg := good
		change(&cfg)
		if _, err := Memcached(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestNothingIsAllocated against a server that allocates nothing either.
func TestNothingIsAllocated(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 { // Probe's connection and ours
			c, err := l.Accept()
			if err != nil {
				return
			}
			echo(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	c := newClient(t, "memcached://"+l.Addr().String(), func(cfg *Config) { cfg.Timings = true })
	settled := 0
	c.cfg.Settle = func(*reqlog.Record) { settled++ }
	rec, op := new(reqlog.Record), &workloads.Op{Kind: workloads.Get, Key: []byte("some-key-0000000001")}
	round := func() {
		now := c.clock.Now()
		for range 8 {
			*rec = reqlog.Record{Seq: 7, Intended: now}
			c.Issue(now, rec, op, 0)
		}
		c.Flush(now)
		for want := settled + 8; settled < want; {
			c.Wait(c.clock.Now().Add(time.Millisecond))
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations for 8 requests", n)
	}
}

// echo answers each line with a hit for the opaque 7.
func echo(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 4096)
	version, reply := []byte("VERSION 1\r\n"), []byte("VA 3 s3 O7 L1,2\r\nabc\r\n")
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		for _, b := range buf[:n] {
			if b != '\n' {
				continue
			}
			answer := reply
			if buf[0] == 'v' {
				answer = version
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}
