//go:build linux

package target

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/control/credit"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// stage is a server of which the test speaks every line. It greets by itself.
type stage struct {
	t     *testing.T
	addr  string
	peers chan *peer
}

// peer is one connection of a stage.
type peer struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// newStage expects conns connections that greet, besides the one of a probe, and any number that come back later.
func newStage(t *testing.T, conns int) *stage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, addr: "memcached://" + l.Addr().String(), peers: make(chan *peer, 100)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p := &peer{Conn: c, t: t, in: bufio.NewReader(c)}
			wg.Go(func() {
				if n <= conns {
					if _, err := p.in.ReadString('\n'); err != nil {
						return
					}
					_, _ = io.WriteString(c, "VERSION 1.6.stage\r\n")
				}
				if n > 0 {
					s.peers <- p
				}
			})
			t.Cleanup(func() { _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return s
}

// expect reads lines until they are as many as are wanted.
func (p *peer) expect(lines ...string) {
	p.t.Helper()
	if err := p.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	for _, want := range lines {
		got, err := p.in.ReadString('\n')
		if err != nil || got != want+"\r\n" {
			p.t.Fatalf("the client said %q (%v), want %q", got, err, want)
		}
	}
}

func (p *peer) say(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
		p.t.Fatal(err)
	}
}

// wallet returns clients with a wallet each.
func wallet(config control.OutboxConfig) func(*rand.Rand) *control.Outbox {
	return func(*rand.Rand) *control.Outbox { return control.NewOutbox(&credit.Wallet{}, config) }
}

func TestWalletOverTheWire(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	c := newClient(t, s.addr, func(cfg *Config) {
		cfg.NewClient, cfg.Priorities = wallet(control.OutboxConfig{}), []uint8{3}
	})
	p := <-s.peers
	line := func(seq uint64, demand int) string {
		return fmt.Sprintf("mg k s v O%d P%d.%d", seq, demand, control.PriorityOf(3, seq))
	}
	c.issue(0, workloads.Get, "k")
	p.expect("mn P1") // nothing leaves before the two have met
	c.issue(0, workloads.Get, "k")
	c.issue(0, workloads.Get, "k")
	if c.Waiting() != 3 {
		t.Errorf("%d wait, want 3", c.Waiting())
	}
	p.say("MN P2")
	c.until(func() bool { return c.Waiting() == 1 })
	p.expect(line(0, 2), line(1, 1))
	p.say("EN O0 P2")
	c.wait(1)
	p.expect(line(2, 0))
	p.say("SERVER_ERROR overloaded queue_delay P1", "EN O2 P0") // one is refused, the other is the last for now
	c.wait(3)
	p.expect("mn P0") // there is nothing to send, but the next credit should be known
	c.issue(0, workloads.Get, "k")
	p.expect("mn P1")
	p.say("MN P0", "MN P1") // the older question, and the newer
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect(line(3, 0))
	p.say("EN O3 P9")
	c.wait(4)
	if diff := cmp.Diff([]string{"ok", "rejected", "ok", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	for _, r := range c.settled {
		if r.Attempts != 1 || r.Sent < r.Intended || r.Done < r.Sent {
			t.Errorf("%+v", r)
		}
	}
	if n := c.Counters(); n != (load.Counters{}) {
		t.Errorf("%+v", n)
	}
}

// TestRecalledQuestionsAreAskedAgain: a server cannot hold the answer to a question behind which something else has been sent.
func TestRecalledQuestionsAreAskedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	c := newClient(t, s.addr, func(cfg *Config) { cfg.NewClient = wallet(control.OutboxConfig{}) })
	p := <-s.peers
	c.issue(0, workloads.Get, "k")
	p.expect("mn P1")
	p.say("MN P0")
	c.until(func() bool { return c.conns[0].pending.len() == 1 && c.conns[0].pending.first == 1 })
	p.expect("mn P1")
	p.say("MN P1")
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect("mg k s v O0 P0")
	p.say("EN O0 P1")
	c.wait(1)
}

// TestKeptBack: what a client keeps back for too long, or has no room for, never leaves, and is not what the generator was late with.
func TestKeptBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	c := newClient(t, s.addr, func(cfg *Config) {
		cfg.NewClient = wallet(control.OutboxConfig{Queue: 3, MaxAge: 20 * time.Millisecond})
	})
	p := <-s.peers
	for range 4 {
		c.issue(0, workloads.Set, "k")
	}
	p.expect("mn P1")
	c.wait(1) // there was no room for the oldest of four
	c.wait(4)
	c.issue(0, workloads.Set, "late")
	p.say("MN P1")
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect("ms late 13 O4 P0", "value of late")
	p.say("HD O4 P1")
	c.wait(5)
	if diff := cmp.Diff([]string{"refused", "refused", "refused", "refused", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	for i, r := range c.settled[:4] {
		if r.Attempts != 0 || r.Sent != 0 || i > 0 && r.Latency() < 20*time.Millisecond {
			t.Errorf("%+v", r)
		}
	}
	if r := c.settled[4]; r.Held <= 0 || r.Held > r.Sent.Sub(r.Intended) {
		t.Errorf("it was handed over after %v, of which its client kept it back for %v", r.Sent.Sub(r.Intended), r.Held)
	}
}

// TestTimedOutAtAClient: who stops waiting for a request that never left has had it refused. A late reply still says how many credits there
// are.
func TestTimedOutAtAClient(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	c := newClient(t, s.addr, func(cfg *Config) {
		cfg.NewClient, cfg.Timeout = wallet(control.OutboxConfig{}), 30*time.Millisecond
	})
	p := <-s.peers
	c.issue(0, workloads.Get, "k")
	p.expect("mn P1")
	c.wait(1)
	if r := c.settled[0]; r.Fate != reqlog.Refused || r.Attempts != 0 || r.Sent != 0 || r.Latency() < c.cfg.Timeout {
		t.Errorf("%+v", r)
	}
	c.issue(0, workloads.Get, "k")
	p.say("MN P1")
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect("mg k s v O1 P0") // the one that was given up is passed over
	c.wait(2)
	if r := c.settled[1]; r.Fate != reqlog.TimedOut || r.Attempts != 1 || r.Latency() < c.cfg.Timeout {
		t.Errorf("%+v", r)
	}
	c.cfg.Timeout = time.Minute
	p.say("EN O1 P2")
	c.until(func() bool { return c.Counters().LateAfter == 1 })
	c.issue(0, workloads.Get, "k")
	c.issue(0, workloads.Get, "k")
	if c.Waiting() != 0 { // for there are two credits
		t.Errorf("%d wait", c.Waiting())
	}
	p.expect("mg k s v O2 P0", "mg k s v O3 P0")
	p.say("EN O2 P2", "EN O3 P2")
	c.wait(4)
	if n := c.Counters(); n != (load.Counters{LateAfter: 1, TimedOutReply: 1}) {
		t.Errorf("%+v", n)
	}
}

// TestPartedAndMetAgain: with a connection go its requests and its credits. On the next one, client and server meet anew.
func TestPartedAndMetAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	c := newClient(t, s.addr, func(cfg *Config) { cfg.NewClient = wallet(control.OutboxConfig{}) })
	p := <-s.peers
	c.issue(0, workloads.Get, "k")
	p.expect("mn P1")
	p.say("MN P1")
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect("mg k s v O0 P0")
	c.issue(0, workloads.Get, "k")
	_ = p.Close()
	c.wait(1) // the one that was under way; the other waits for its turn
	c.until(func() bool { return c.conns[0].State == poll.Up })
	p = <-s.peers
	p.expect("mn P1")
	p.say("MN P4")
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect("mg k s v O1 P0")
	p.say("EN O1 P4")
	c.wait(2)
	if diff := cmp.Diff([]string{"failed", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	if n := c.Counters(); n != (load.Counters{Lost: 1, Reconnects: 1}) {
		t.Errorf("%+v", n)
	}
	c.issue(0, workloads.Get, "k")
	c.issue(0, workloads.Get, "k")
	c.close() // what is under way when everything ends has timed out
	if diff := cmp.Diff([]string{"failed", "ok", "timed_out", "timed_out"}, c.fates()); diff != "" {
		t.Error(diff)
	}
}

// TestAServerWithoutCredits does not limit anybody, as memcached does not.
func TestAServerWithoutCredits(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	c := newClient(t, s.addr, func(cfg *Config) { cfg.NewClient = wallet(control.OutboxConfig{Queue: 1}) })
	p := <-s.peers
	c.issue(0, workloads.Get, "k")
	p.expect("mn P1")
	p.say("MN")
	c.until(func() bool { return c.Waiting() == 0 })
	for range 100 {
		c.issue(0, workloads.Get, "k")
	}
	for i := range 101 {
		p.expect(fmt.Sprintf("mg k s v O%x P0", i))
		p.say(fmt.Sprintf("EN O%x", i))
	}
	c.wait(101)
}

// shedding answers every request with a refusal.
func shedding(request) string { return "SERVER_ERROR overloaded fraction\r\n" }

// noting keeps what a fake was asked, under the fake's lock.
func noting(list *[]string, answer func(request) string) func(request) string {
	return func(r request) string {
		*list = append(*list, strings.Join(append([]string{r.verb}, r.args...), " ")+string(r.value))
		return answer(r)
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	var first, second []string
	a, b := newFake(t, noting(&first, shedding)), newFake(t, noting(&second, plain))
	both := a.addr + "," + strings.TrimPrefix(b.addr, "memcached://")
	c := newClient(t, both, func(cfg *Config) { cfg.Retry, cfg.Conns = &load.Retry{Budget: 1, First: true}, 2 })
	for i, kind := range []workloads.Kind{workloads.Get, workloads.Set, workloads.Delete, workloads.MultiGet} {
		key := "k"
		if kind == workloads.MultiGet {
			key = "k1 k2 miss"
		}
		c.issue(uint32(i%2), kind, key)
		c.wait(i + 1)
	}
	if diff := cmp.Diff([]string{"ok", "ok", "ok", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	for _, r := range c.settled {
		if r.Attempts != 2 || r.Reason != 0 || r.Sent < r.Intended || r.Done < r.Sent {
			t.Errorf("%+v", r)
		}
	}
	a.close()
	b.close()
	want := []string{"mg k s v O0", "ms k 10 O1value of k", "md k O2", "get k1 k2 miss"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("at the first server:\n%s", diff)
	}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("at the second server:\n%s", diff)
	}
	if n := c.Counters(); n != (load.Counters{}) {
		t.Errorf("%+v", n)
	}
}

// TestRetryHasABudget: retries are at most the share of requests that they may be, and what both servers shed is shed.
func TestRetryHasABudget(t *testing.T) {
	t.Parallel()
	var first, second []string
	a, b := newFake(t, noting(&first, shedding)), newFake(t, noting(&second, func(request) string { return "SERVER_ERROR overloaded codel\r\n" }))
	both := a.addr + "," + strings.TrimPrefix(b.addr, "memcached://")
	c := newClient(t, both, func(cfg *Config) { cfg.Retry, cfg.Conns = &load.Retry{Budget: 0.1}, 1 })
	const all = 200
	for i := range all {
		c.issue(0, workloads.Get, "k")
		c.wait(i + 1)
	}
	a.close()
	b.close()
	if len(first) != all || len(second) != all/10 {
		t.Errorf("the first server was asked %d times, the second %d times, want %d and %d", len(first), len(second), all, all/10)
	}
	rejected, dropped := 0, 0
	for _, r := range c.settled {
		switch {
		case r.Fate == reqlog.Rejected && r.Attempts == 1:
			rejected++
		case r.Fate == reqlog.Dropped && r.Attempts == 2:
			dropped++
		}
	}
	if rejected != all*9/10 || dropped != all/10 {
		t.Errorf("%d were rejected by the first server, %d dropped by the second", rejected, dropped)
	}
}

// refusing is a client's half that refuses all.
type refusing struct{ credit.Wallet }

func (*refusing) Permit(clock.Instant, *control.Outgoing) control.Verdict { return control.Reject }
func (*refusing) Ask(clock.Instant, int) bool                             { return false }

// TestRetryAfterTheClientRefused: what the client's own control keeps from one server may go to the other.
func TestRetryAfterTheClientRefused(t *testing.T) {
	t.Parallel()
	var first, second []string
	a, b := newFake(t, noting(&first, plain)), newFake(t, noting(&second, plain))
	both := a.addr + "," + strings.TrimPrefix(b.addr, "memcached://")
	made := 0
	c := newClient(t, both, func(cfg *Config) {
		cfg.Retry, cfg.Conns = &load.Retry{Budget: 0.5}, 2
		cfg.NewClient = func(rng *rand.Rand) *control.Outbox {
			if made++; made == 1 || made == 4 { // of the first client for the first server, of the second for the second
				return control.NewOutbox(&refusing{}, control.OutboxConfig{})
			}
			return control.NewOutbox(free{}, control.OutboxConfig{})
		}
	})
	if made != 4 {
		t.Errorf("%d clients' halves, want one for each of two clients and two servers", made)
	}
	for i := range 8 {
		c.issue(uint32(i%2), workloads.Get, "k")
		c.wait(i + 1)
	}
	if diff := cmp.Diff([]string{"refused", "refused", "ok", "ok", "refused", "refused", "ok", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	a.close()
	b.close()
	if len(first) != 2 || len(second) != 2 { // of the second client and of the first
		t.Errorf("%d and %d requests", len(first), len(second))
	}
	for _, r := range c.settled {
		if (r.Fate == reqlog.OK) != (r.Attempts == 1) {
			t.Errorf("%+v", r)
		}
	}
}

// free is a client's half that lets everything go.
type free struct{}

func (free) Permit(clock.Instant, *control.Outgoing) control.Verdict { return control.Admit }
func (free) Hear(clock.Instant, control.Notice)                      {}
func (free) Next(clock.Instant) clock.Instant                        { return clock.Never }
func (free) Ask(clock.Instant, int) bool                             { return false }

func TestControlledRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t, plain)
	for want, change := range map[string]func(*Config){
		"give at least two": func(c *Config) { c.Retry = &load.Retry{Budget: 0.1} },
		"between 0 and 1":   func(c *Config) { c.Addr += ",127.0.0.1:1"; c.Retry = &load.Retry{Budget: 2} },
	} {
		cfg := Config{Addr: f.addr, Conns: 1, Clock: clock.NewReal(), Timeout: time.Second, Settle: func(*reqlog.Record) {}}
		change(&cfg)
		if _, err := Memcached(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	cfg := Config{Addr: f.addr, Conns: 1, Clock: clock.NewReal(), Timeout: time.Second, Settle: func(*reqlog.Record) {}, Priorities: []uint8{1}}
	if _, err := Gomemcache(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "carries no credits") {
		t.Errorf("gomemcache: %v", err)
	}
}

// TestNothingIsAllocatedUnderControl: neither for what waits at its client, nor for what is sent twice.
func TestNothingIsAllocatedUnderControl(t *testing.T) {
	var addrs []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 2 { // the probe's connection and ours
				c, err := l.Accept()
				if err != nil {
					return
				}
				wg.Go(func() { parrot(c) })
			}
		})
		t.Cleanup(func() { _ = l.Close(); wg.Wait() })
		addrs = append(addrs, l.Addr().String())
	}
	c := newClient(t, "memcached://"+strings.Join(addrs, ","), func(cfg *Config) {
		cfg.Timings, cfg.NewClient, cfg.Priorities = true, wallet(control.OutboxConfig{Queue: 16, MaxAge: time.Second}), []uint8{1}
		cfg.Retry = &load.Retry{Budget: 1}
	})
	settled, twice := 0, 0
	c.cfg.Settle = func(r *reqlog.Record) {
		settled++
		if r.Attempts == 2 {
			twice++
		}
	}
	rec, op := new(reqlog.Record), &workloads.Op{Kind: workloads.Get, Key: []byte("some-key-0000000001")}
	waited := int64(0)
	round := func() {
		now := c.clock.Now()
		for range 8 {
			*rec = reqlog.Record{Seq: 7, Intended: now}
			c.Issue(now, rec, op, 0)
		}
		c.Flush(now)
		waited = max(waited, c.Waiting())
		for want := settled + 8; settled < want; {
			c.Wait(c.clock.Now().Add(time.Millisecond))
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations for 8 requests", n)
	}
	if waited == 0 || twice == 0 {
		t.Errorf("%d waited, %d were sent twice", waited, twice)
	}
}

// parrot answers each line by its first letters: gets with a hit for the opaque 7 and credits, every third with a refusal. It allocates nothing
// once it has begun.
func parrot(c net.Conn) {
	defer c.Close()
	buf, line := make([]byte, 4096), make([]byte, 0, 4096)
	n := 0
	for {
		k, err := c.Read(buf)
		if err != nil {
			return
		}
		for _, b := range buf[:k] {
			if line = append(line, b); b != '\n' {
				continue
			}
			answer := parrotHit
			switch {
			case line[0] == 'v':
				answer = parrotVersion
			case line[1] == 'n':
				answer = parrotCredits
			default:
				if n++; n%3 == 0 {
					answer = parrotShed
				}
			}
			line = line[:0]
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

var (
	parrotVersion = []byte("VERSION 1\r\n")
	parrotCredits = []byte("MN P4\r\n")
	parrotHit     = []byte("VA 3 s3 O7 L1,2 P4\r\nabc\r\n")
	parrotShed    = []byte("SERVER_ERROR overloaded codel P4 L1,2\r\n")
)
