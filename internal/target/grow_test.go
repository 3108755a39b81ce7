//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

func TestMultiGetIsOneRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(r request) string {
		if r.verb == "get" && r.key == "shed" {
			return "SERVER_ERROR overloaded codel\r\n"
		}
		return plain(r)
	})
	c := newClient(t, f.addr, nil)
	c.issue(0, workloads.Get, "before")
	c.issue(0, workloads.MultiGet, "a b miss1 c miss2")
	c.issue(0, workloads.MultiGet, "miss1 miss2 miss3")
	c.issue(0, workloads.MultiGet, "shed a b")
	c.issue(0, workloads.MultiGet, "a b")
	c.issue(0, workloads.Get, "after")
	c.wait(6)
	var got []string
	for _, r := range c.settled {
		got = append(got, fmt.Sprint(r.Fate, " ", r.Hits, " of ", r.Keys, ", ", r.BytesIn))
	}
	want := []string{
		"ok 1 of 1, 17", "ok 3 of 5, 59", "ok 0 of 3, 5", "dropped 0 of 3, 31", "ok 2 of 2, 41", "ok 1 of 1, 17",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestItemsOfNoRequest: what answers to nothing of ours ends the connection.
func TestItemsOfNoRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(r request) string { return "VALUE a 0 1\r\nx\r\nEND\r\n" })
	c := newClient(t, f.addr, nil)
	c.issue(0, workloads.Get, "a")
	c.wait(1)
	if c.counters.OutOfStep != 1 || c.settled[0].Fate != reqlog.Failed {
		t.Errorf("%+v, %v", c.counters, c.settled[0].Fate)
	}
	f = newFake(t, func(r request) string { return "HD\r\n" })
	c = newClient(t, f.addr, nil)
	c.issue(0, workloads.MultiGet, "a b")
	c.wait(1)
	if c.counters.OutOfStep != 1 || c.settled[0].Fate != reqlog.Failed {
		t.Errorf("%+v, %v", c.counters, c.settled[0].Fate)
	}
}

// TestConnectionsGrow: with one request at a time on a connection, an open loop needs as many connections as there are requests under
// way. They are added up to the bound and used again.
func TestConnectionsGrow(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFake(t, nil)
	f.answer = func(r request) string { return plain(r) }
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Window, cfg.MaxConns = 1, 5 })
	f.mu.Lock()
	f.answer = func(r request) string { <-release; return plain(r) }
	f.mu.Unlock()
	for range 7 {
		c.issue(0, workloads.Get, "k")
	}
	c.wait(2)
	if n := c.counters; n.Grown != 4 || n.WindowFull != 2 {
		t.Errorf("%+v", n)
	}
	close(release)
	c.wait(7)
	if diff := cmp.Diff([]string{"ok", "ok", "ok", "ok", "ok", "unsent", "unsent"}, c.fates()); diff != "" {
		t.Error(diff)
	}
	for range 10 { // none has to be added now
		for range 5 {
			c.issue(0, workloads.Get, "k")
		}
		c.wait(len(c.settled) + 5)
	}
	if n := c.counters; n.Grown != 4 || n.WindowFull != 2 || n.Reconnects != 0 {
		t.Errorf("%+v", n)
	}
}

// TestGrowthIsShared: several senders together add no more than the bound.
func TestGrowthIsShared(t *testing.T) {
	t.Parallel()
	total := 0
	for shard := range 3 {
		m := &MemcachedTarget{cfg: Config{Conns: 5, MaxConns: 12, Shard: shard, Shards: 3}}
		total += m.mayAdd()
	}
	if total != 7 {
		t.Errorf("three senders may add %d connections, want 7", total)
	}
}

// TestShardsHaveTheirConnections: client i uses connection i modulo Conns, whichever sender has it.
func TestShardsHaveTheirConnections(t *testing.T) {
	t.Parallel()
	conns := map[string]string{}
	f := newFake(t, func(r request) string {
		if conns[r.key] == "" {
			conns[r.key] = r.conn
		}
		if conns[r.key] != r.conn {
			return "SERVER_ERROR client moved\r\n"
		}
		return plain(r)
	})
	for shard := range 2 {
		c := newClient(t, f.addr, func(cfg *Config) { cfg.Conns, cfg.Shard, cfg.Shards = 5, shard, 2 })
		if want := 3 - shard; len(c.conns) != want {
			t.Fatalf("sender %d has %d connections, want %d", shard, len(c.conns), want)
		}
		for range 2 {
			for client := uint32(shard); client < 5; client += 2 {
				c.issue(client, workloads.Get, fmt.Sprint(client))
			}
		}
		c.wait(2 * (3 - shard))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	distinct := map[string]bool{}
	for _, conn := range conns {
		distinct[conn] = true
	}
	if len(distinct) != 5 {
		t.Errorf("clients and their connections: %v", conns)
	}
}

// deaf returns the address of a listener whose queue is full: connecting to it takes for ever.
func deaf(t *testing.T) *unix.SockaddrInet4 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := name.(*unix.SockaddrInet4)
	for range 3 { // more than the queue of the listener holds
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", addr.Port), 50*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return addr
}

// TestTimedOutByKind: what a request that timed out was waiting for is counted.
func TestTimedOutByKind(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFake(t, func(r request) string { <-release; return plain(r) })
	defer close(release)
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Window, cfg.MaxConns, cfg.Timeout = 1, 2, 60*time.Millisecond })
	c.issue(0, workloads.Get, "k") // waits for its reply
	c.conns[0].Peer = deaf(t)
	c.issue(0, workloads.Get, "k") // waits for its connection
	c.wait(2)
	if n := c.counters; n.TimedOutDial != 1 || n.TimedOutReply != 1 || n.TimedOutWrite != 0 {
		t.Errorf("%+v", n)
	}
	if c.conns[1].State != poll.Connecting {
		t.Error("the dial is over; the test does not test what it says")
	}

	// A server that reads nothing: some requests wait for its reply, those behind them for the kernel.
	other := newFake(t, func(r request) string { <-release; return plain(r) })
	c = newClient(t, other.addr, func(cfg *Config) { cfg.Timeout = time.Second })
	// Buffers of a fixed size: the kernel's own grow while it is looked at, and would in the end take everything.
	const buffer = 64 << 10
	if err := unix.SetsockoptInt(c.conns[0].FD, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer); err != nil {
		t.Fatal(err)
	}
	other.mu.Lock()
	for _, conn := range other.mu.conns {
		if err := conn.(*net.TCPConn).SetReadBuffer(buffer); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	other.mu.Unlock()
	value := make([]byte, 200_000)
	issued := 0
	for len(c.conns[0].out)-c.conns[0].written < 1_000_000 && issued < 1000 {
		now := c.clock.Now()
		c.Issue(now, &reqlog.Record{Seq: c.seq, Intended: now, Kind: uint8(workloads.Set)}, &workloads.Op{Kind: workloads.Set, Key: []byte("k"), Value: value}, 0)
		c.Flush(now)
		c.seq++
		issued++
	}
	// The kernel goes on moving bytes from its sending to its receiving buffer for a while; what it then still refuses is held back.
	left := func() int { return len(c.conns[0].out) - c.conns[0].written }
	for same, last := 0, left(); same < 10; {
		c.Wait(c.clock.Now().Add(5 * time.Millisecond))
		if same++; left() != last {
			same, last = 0, left()
		}
	}
	held := left() / len(value)
	if held < 2 || len(c.settled) > 0 {
		t.Fatalf("%d requests are held back and %d settled already: the test does not test what it says", held, len(c.settled))
	}
	c.wait(issued)
	n := c.counters
	if n.TimedOutReply+n.TimedOutWrite != int64(issued) || n.TimedOutWrite < int64(held) || n.TimedOutWrite > int64(held)+2 || n.TimedOutReply == 0 {
		t.Errorf("%d issued, %d of them held back: %+v", issued, held, n)
	}
}

func TestDialTimeout(t *testing.T) {
	t.Parallel()
	f := newFake(t, plain)
	c := newClient(t, f.addr, func(cfg *Config) { cfg.Window, cfg.MaxConns, cfg.DialTimeout = 1, 2, 40*time.Millisecond })
	release := make(chan struct{})
	f.mu.Lock()
	f.answer = func(r request) string { <-release; return plain(r) }
	f.mu.Unlock()
	c.issue(0, workloads.Get, "k")
	c.conns[0].Peer = deaf(t)
	c.issue(0, workloads.Get, "k")
	c.wait(1)
	if n := c.counters; n.TimedOutDial != 1 || c.settled[0].Seq != 1 || c.settled[0].Fate != reqlog.TimedOut {
		t.Errorf("%+v, %+v", n, c.settled[0])
	}
	close(release)
	c.wait(2)
}

// listen starts a fake server at a given address.
func fakeAt(t *testing.T, network, address, url string) *fake {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("%s: %v", address, err)
	}
	f := &fake{addr: url, l: l}
	if url == "" {
		f.addr = "memcached://" + l.Addr().String()
	}
	f.answer = plain
	f.wg.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func TestAddressesOfEveryKind(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a,b.sock")
	for _, f := range []*fake{fakeAt(t, "tcp", "[::1]:0", ""), fakeAt(t, "unix", path, "memcached://"+path)} {
		c := newClient(t, f.addr, func(cfg *Config) { cfg.Conns, cfg.Window, cfg.MaxConns = 2, 1, 4 })
		for range 3 {
			c.issue(0, workloads.Get, "k") // the second and third need a connection of their own
		}
		c.wait(3)
		if c.fates()[2] != "ok" {
			t.Errorf("%s: %v", f.addr, c.fates())
		}
	}
}

// TestSeveralServers: all are used, and a name is resolved once.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	a, b := newFake(t, plain), newFake(t, plain)
	both := a.addr + "," + strings.TrimPrefix(b.addr, scheme)
	c := newClient(t, both, func(cfg *Config) { cfg.Conns = 4 })
	for client := range uint32(4) {
		c.issue(client, workloads.Get, "k")
	}
	c.wait(4)
	for _, f := range []*fake{a, b} {
		f.mu.Lock()
		if f.mu.n != 2 {
			t.Errorf("%s had %d of 4 requests", f.addr, f.mu.n)
		}
		f.mu.Unlock()
	}
	if _, err := Probe(t.Context(), both+",127.0.0.1:1"); err == nil {
		t.Error("a server that is not there went unnoticed")
	}
}

// marks is a server that keeps what is set, as Resolve needs.
func marks() func(r request) string {
	kept := map[string]bool{}
	return func(r request) string {
		switch r.verb {
		case "set":
			kept[r.key] = true
			return "STORED\r\n"
		case "1": // the value, which the fake takes for a command
			return ""
		case "mg":
			if kept[r.key] {
				return "HD\r\n"
			}
			return "EN\r\n"
		}
		return "ERROR\r\n"
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	a, b := newFake(t, marks()), newFake(t, marks())
	hostA, hostB := strings.TrimPrefix(a.addr, scheme), strings.TrimPrefix(b.addr, scheme)
	_, port, err := net.SplitHostPort(hostA)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]int{
		a.addr: 1, a.addr + "," + hostB: 2, a.addr + "," + hostA: 1,
		"memcached://localhost:" + port:                        1, // where it has an IPv6 address too, nothing listens there
		"memcached://localhost:" + port + "," + hostA:          1,
		"memcached://[::ffff:127.0.0.1]:" + port + "," + hostA: 1, // the same server by two addresses
	} {
		got, err := Resolve(t.Context(), in)
		if err != nil || len(split(got)) != want || strings.Contains(got, "localhost") {
			t.Errorf("Resolve(%s) = %s, %v; want %d addresses", in, got, err, want)
		}
	}
	for _, bad := range []string{"memcached://nowhere.invalid:1", "memcached://localhost:1", "http://localhost:1", "memcached://a,b"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if got, err := Resolve(ctx, bad); err == nil {
			t.Errorf("Resolve(%s) = %s", bad, got)
		}
		cancel()
	}
}

func TestStatsOfSeveralServers(t *testing.T) {
	t.Parallel()
	all := map[string]string{"cmd_get": "5", "pid": "1", "version": "1.6", "threads": "4"}
	sum(all, map[string]string{"cmd_get": "7", "pid": "2", "version": "1.6", "threads": "4", "extra": "1"})
	for _, tt := range []struct{ first, second, want string }{{"codel", "codel", "codel"}, {"codel", "none", ""}, {"", "none", ""}} {
		into := map[string]string{"control": tt.first}
		if sum(into, map[string]string{"control": tt.second}); into["control"] != tt.want {
			t.Errorf("servers under %q and %q are under %q, want %q", tt.first, tt.second, into["control"], tt.want)
		}
	}
	if diff := cmp.Diff(map[string]string{"cmd_get": "12", "pid": "1", "version": "1.6", "threads": "8", "extra": "1"}, all); diff != "" {
		t.Error(diff)
	}
}
