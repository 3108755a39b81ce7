//go:build linux

package servers_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/servers"
	"spillway/servers/memcached"
)

// TestShedsByClass: requests are counted by what they ask for, and so are those that are refused.
func TestShedsByClass(t *testing.T) {
	t.Parallel()
	seen := &classes{}
	f := start(t, seen, nil)
	c := f.dial(t)
	const shed = "SERVER_ERROR overloaded fraction\r\n"
	c.do("get a b\r\nmg a\r\ngat 5 a\r\nset a 0 0 3\r\nxyz\r\nms a 2\r\nxx\r\nappend a 0 0 1\r\nx\r\ndelete a\r\nmd a\r\nincr a 1\r\nma a\r\ntouch a 1\r\nflush_all\r\nme a\r\n", strings.Repeat(shed, 13))
	got := c.stats("spillway")
	for name, want := range map[string]string{
		"arrivals_get": "3", "arrivals_set": "3", "arrivals_delete": "2", "arrivals_other": "5", "shed_get_fraction": "3", "shed_set_fraction": "3",
		"shed_delete_fraction": "2", "shed_other_fraction": "5", "shed_get_codel": "0", "shed_fraction": "13",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if want := "[0 0 0 1 1 1 2 2 3 3 3 3 3] [0 0 0 3 2 1 0 0 0 0 0 0 0]"; seen.String() != want {
		t.Errorf("the controller saw classes and bytes %v, want %s", seen, want)
	}
}

// classes refuses everything, and remembers class and size of it.
type classes struct {
	control.None
	mu    sync.Mutex
	class []uint16
	bytes []int64
}

func (c *classes) Decide(_ clock.Instant, s control.Stage, r *control.Request) control.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.class, c.bytes = append(c.class, r.Class), append(c.bytes, r.Bytes)
	return control.Decision{Verdict: control.Reject, Reason: control.Fraction}
}

func (c *classes) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.class, c.bytes)
}

func TestStatsReset(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, nil)
	c := f.dial(t)
	c.do("set a 0 0 1\r\nx\r\nget a\r\nget b\r\nstats reset\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\nRESET\r\n")
	plain, ours := c.stats(""), c.stats("spillway")
	for _, name := range []string{"cmd_get", "cmd_set", "get_hits", "get_misses", "total_items", "total_connections"} {
		if plain[name] != "0" {
			t.Errorf("%s is %s after a reset", name, plain[name])
		}
	}
	if plain["curr_items"] != "1" || plain["curr_connections"] != "1" || ours["arrivals"] != "3" {
		t.Errorf("%v %v", plain, ours)
	}
}

// lockedBuffer is a log that two goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestVerbosity(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.Log, c.MaxConns = log, 1 })
	c := f.dial(t)
	c.do("get secret\r\nverbosity 1\r\nget hidden\r\n", "END\r\nOK\r\nEND\r\n")
	f.dial(t).expectEnd("ERROR Too many open connections\r\n")
	c.do("verbosity 9\r\n", "OK\r\n")
	c.do("set loud 0 0 1\r\nx\r\nverbosity 0\r\n", "STORED\r\nOK\r\n")
	c.do("get silent\r\n", "END\r\n")
	said := log.String()
	if !strings.Contains(said, "turned away") || !strings.Contains(said, "set loud 0 0 1") || strings.Contains(said, "secret") ||
		strings.Contains(said, "hidden") || strings.Contains(said, "silent") {
		t.Errorf("it said %q", said)
	}
}

// TestStatsConns: all connections are listed, those of other loops too, while some come and go.
func TestStatsConns(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.Loops = 3 })
	watch := f.dial(t)
	const others = 5
	for range others {
		f.dial(t).do("mn\r\n", "MN\r\n")
	}
	done := make(chan struct{})
	var storm sync.WaitGroup
	storm.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if conn, err := net.DialTimeout("tcp", f.addr, time.Second); err == nil {
				_ = conn.Close()
			}
		}
	})
	for range 50 {
		listening, reading := 0, 0
		for name, value := range watch.stats("conns") {
			switch {
			case strings.HasSuffix(name, ":state") && value == "conn_listening":
				listening++
			case strings.HasSuffix(name, ":state") && value == "conn_read":
				reading++
			}
		}
		if listening != 1 || reading < others+1 {
			t.Fatalf("%d listeners and %d connections", listening, reading)
		}
	}
	close(done)
	storm.Wait()
}

// TestConnYields: a connection with more commands under way than it may have waits, and it is counted.
func TestConnYields(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.Pipeline = 10 })
	c := f.dial(t)
	c.do(strings.Repeat("get a\r\n", 100), strings.Repeat("END\r\n", 100))
	if n := c.number("", "conn_yields"); n < 5 {
		t.Errorf("it has yielded %d times", n)
	}
}
