//go:build linux

package target

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/reqlog"
)

// TestTurnedAwayConnections: a server that takes three connections and turns the others away, in the ways servers do, is found out while
// dialling.
func TestTurnedAwayConnections(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		turnAway func(net.Conn)
		want     string
	}{
		"with a line": {func(c net.Conn) { _, _ = io.WriteString(c, "ERROR Too many open connections\r\n"); _ = c.Close() }, "Too many open connections"},
		"silently":    {func(c net.Conn) { _ = c.Close() }, "is not answered"},
		"by leaving":  {func(net.Conn) {}, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := limited(t, 3, tc.turnAway)
			m, err := Memcached(t.Context(), Config{
				Addr: addr, Conns: 4, Clock: clock.NewReal(), Timeout: time.Minute, DialTimeout: 300 * time.Millisecond, Settle: func(*reqlog.Record) {},
			})
			if err == nil {
				_ = m.Close()
				t.Fatal("four connections stand at a server that takes three")
			}
			for _, want := range []string{"connection 3 of 4", tc.want, "--max-conns", "--conns"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// limited answers `version` on its first few connections, the probe's among them, and gives the others to turnAway.
func limited(t *testing.T, most int, turnAway func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			if n >= most {
				turnAway(c)
				continue
			}
			wg.Go(func() {
				for in := bufio.NewReader(c); ; {
					if _, err := in.ReadString('\n'); err != nil {
						return
					}
					_, _ = io.WriteString(c, "VERSION 1.6.fake\r\n")
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "memcached://" + l.Addr().String()
}
