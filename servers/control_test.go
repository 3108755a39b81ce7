//go:build linux

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
	"spillway/servers"
	"spillway/servers/memcached"
)

// holding keeps every request at the head of the queue until release.
type holding struct {
	control.None
	released atomic.Bool
}

func (h *holding) release() { h.released.Store(true) }

func (h *holding) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s == control.AtDequeue && !h.released.Load() {
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{}
}

func (h *holding) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	return now.Add(time.Millisecond)
}

// alternating refuses every second request, and hands out as many credits as the client asks for and one more.
type alternating struct {
	control.None
	n      int
	demand map[uint32]int
}

func (a *alternating) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s != control.AtArrival {
		return control.Decision{}
	}
	if a.n++; a.n%2 == 0 {
		return control.Decision{Verdict: control.Reject, Reason: control.Fraction}
	}
	return control.Decision{}
}

func (a *alternating) Demand(_ clock.Instant, client uint32, n int) { a.demand[client] = n }
func (a *alternating) Credits(_ clock.Instant, client uint32) int   { return a.demand[client] + 1 }
func (a *alternating) Forget(clock.Instant, uint32)                 {}

func (a *alternating) Wake(_ clock.Instant, out []control.Action) []control.Action { return out }
func (a *alternating) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("asked", float64(a.n)) }
}

// TestShedRepliesKeepTheConnectionInStep: whatever is refused, the data block behind it is not taken for a command.
func TestShedRepliesKeepTheConnectionInStep(t *testing.T) {
	t.Parallel()
	f := start(t, &alternating{demand: map[uint32]int{}}, nil)
	c := f.dial(t)
	const shed = "SERVER_ERROR overloaded fraction\r\n"
	large := strings.Repeat("get a\r\n", 30000) // a block full of commands, larger than one read
	c.do("set a 1 0 3\r\nabc\r\n"+"set a 2 0 7\r\nget a\r\n\r\n"+"get a\r\n", "STORED\r\n"+shed+"VALUE a 1 3\r\nabc\r\nEND\r\n")
	c.do(fmt.Sprintf("set a 2 0 %d\r\n%s\r\nget a\r\n", len(large), large), shed+"VALUE a 1 3\r\nabc\r\nEND\r\n")
	c.do("set a 3 0 3 noreply\r\nxyz\r\nmg a v f\r\n", "VA 3 f1\r\nabc\r\n")  // refused in silence
	c.do("ms a 3 q O1\r\nxyz\r\nms a 3 q O2\r\nxyz\r\nmn\r\n", shed+"MN\r\n") // quiet, and yet told of the refusal
}

func TestCreditsRideOnBothKindsOfReply(t *testing.T) {
	t.Parallel()
	f := start(t, &alternating{demand: map[uint32]int{}}, nil)
	c := f.dial(t)
	c.do("mg a P4 O7\r\n", "EN P5 O7\r\n")
	c.do("mg a P6 O7\r\n", "SERVER_ERROR overloaded fraction P7\r\n")
	c.do("mg a O7\r\n", "EN O7\r\n") // not asked for
	c.do("get a\r\n", "SERVER_ERROR overloaded fraction\r\n")
	if got := c.stats("spillway"); got["meter_asked"] != "4" || got["shed_fraction"] != "2" {
		t.Errorf("got %v", got)
	}
	plain := start(t, control.None{}, nil).dial(t) // no credits to give
	plain.do("mg a P4 O7\r\n", "EN O7\r\n")
}

func TestTimings(t *testing.T) {
	t.Parallel()
	hold := &holding{}
	f := start(t, hold, nil)
	c, watcher := f.dial(t), f.dial(t)
	c.send("mg a L O1\r\nmg a\r\nget a\r\n")
	watcher.await("spillway", "queued", 3)
	began := time.Now()
	for watcher.number("spillway", "queue_delay_us") < 2000 { // what is waited for here, the timings must contain
	}
	hold.release()
	var queued, service int
	line, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(line, "EN L%d,%d O1\r\n", &queued, &service); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if most := time.Since(began).Microseconds() + 2_000_000; queued < 2000 || service < 0 || int64(queued) > most {
		t.Errorf("queued %d us, service %d us", queued, service)
	}
	c.expect("EN\r\nEND\r\n") // not asked for
}

func TestGoneClientsAreWithdrawn(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		hold := &holding{}
		f := start(t, hold, func(c *servers.Config, _ *memcached.Config) {
			if network == "unix" {
				c.Listen = []string{"unix://" + filepath.Join(t.TempDir(), "s")}
			}
		})
		watcher := f.dial(t)
		const clients, each = 3, 50
		for range clients {
			c := f.dial(t)
			c.send(strings.Repeat("get a\r\nset b 0 0 1\r\nx\r\n", each/2))
			if tcp, ok := c.Conn.(*net.TCPConn); ok {
				watcher.await("spillway", "queued", each)
				if err := tcp.SetLinger(0); err != nil { // so that Close says reset
					t.Fatal(err)
				}
			} else {
				watcher.await("spillway", "queued", each)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			watcher.await("spillway", "queued", 0)
		}
		watcher.await("spillway", "shed_cancelled", clients*each)
		watcher.await("", "curr_connections", 1)
		hold.release()
		watcher.do("get b\r\n", "END\r\n")
		if got := watcher.stats("spillway"); got["arrivals"] != fmt.Sprint(clients*each+1) || got["finished"] != "1" || got["in_service"] != "0" {
			t.Errorf("%s: %v", network, got)
		}
	}
}

func TestDeadlineAndQueueBound(t *testing.T) {
	t.Parallel()
	f := start(t, &holding{}, func(c *servers.Config, _ *memcached.Config) { c.Deadline, c.Queue = 20*time.Millisecond, 3 })
	c := f.dial(t)
	full, expired := "SERVER_ERROR overloaded queue_full\r\n", "SERVER_ERROR overloaded expired\r\n"
	c.do(strings.Repeat("get a\r\n", 5), strings.Repeat(expired, 3)+strings.Repeat(full, 2))
	if got := c.stats("spillway"); got["shed_expired"] != "3" || got["shed_queue_full"] != "2" || got["max_queued"] != "3" {
		t.Errorf("got %v", got)
	}
}

// failing is a backend whose every command fails.
type failing struct{}

func (failing) Do(*memproto.Command, *memproto.Writer) error { return errors.New("no\r\nluck") }
func (failing) Stats(func(string, uint64) bool)              {}
func (failing) Close() error                                 { return nil }

func TestBackendErrorsAreAnswered(t *testing.T) {
	t.Parallel()
	config := servers.Default()
	config.Listen = []string{"127.0.0.1:0"}
	s, err := servers.New(failing{}, control.Stack{Controller: control.None{}}, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	c := (&fixture{addr: s.Addrs()[0]}).dial(t)
	c.do("get a\r\nmg a q\r\nset a 0 0 1 noreply\r\nx\r\nmn\r\n", "SERVER_ERROR no  luck\r\nSERVER_ERROR no  luck\r\nMN\r\n")
	if got := c.number("spillway", "failed"); got != 3 {
		t.Errorf("%d failed, want 3", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStatsAreExact: what clients sent is what the server counted, whichever loops did it.
func TestStatsAreExact(t *testing.T) {
	t.Parallel()
	f := start(t, &alternating{demand: map[uint32]int{}}, func(c *servers.Config, _ *memcached.Config) { c.Loops = 3 })
	const clients, rounds = 5, 400
	var all sync.WaitGroup
	var shed atomic.Int64
	for id := range clients {
		c := f.dial(t)
		all.Go(func() {
			go func() {
				for i := range rounds {
					_, _ = fmt.Fprintf(c, "set k%d-%d 0 0 5\r\nhello\r\nmg k%d-%d v\r\nget nothing\r\n", id, i, id, i)
				}
				_, _ = c.Write([]byte("mn\r\n"))
			}()
			for {
				line, err := c.in.ReadString('\n')
				if err != nil {
					t.Error(err)
					return
				}
				if strings.HasPrefix(line, "SERVER_ERROR overloaded fraction") {
					shed.Add(1)
				}
				if line == "MN\r\n" {
					return
				}
			}
		})
	}
	all.Wait()
	c := f.dial(t)
	total := clients * rounds * 3
	plain, ours := c.stats(""), c.stats("spillway")
	num := func(m map[string]string, name string) (v int) { _, _ = fmt.Sscan(m[name], &v); return v }
	if num(ours, "arrivals") != total || num(ours, "shed_fraction") != int(shed.Load()) || num(ours, "started") != total-int(shed.Load()) ||
		num(ours, "finished") != num(ours, "started") || num(ours, "in_service") != 0 || num(ours, "queued") != 0 {
		t.Errorf("of %d, %d were shed: %v", total, shed.Load(), ours)
	}
	if got := num(plain, "cmd_get") + num(plain, "cmd_set"); got != num(ours, "finished") {
		t.Errorf("cmd_get + cmd_set = %d, finished %d", got, num(ours, "finished"))
	}
	if num(plain, "get_hits")+num(plain, "get_misses") != num(plain, "cmd_get") || num(plain, "curr_items") != num(plain, "cmd_set") {
		t.Errorf("got %v", plain)
	}
	if num(plain, "total_connections") != clients+1 || num(plain, "threads") != 3 {
		t.Errorf("got %v", plain)
	}
}

func TestMetricsWhileServing(t *testing.T) {
	t.Parallel()
	f := start(t, &alternating{demand: map[uint32]int{}}, func(c *servers.Config, _ *memcached.Config) { c.Metrics = "127.0.0.1:0" })
	c := f.dial(t)
	go func() { _, _ = c.Write([]byte(strings.Repeat("set a 0 0 1\r\nx\r\nget a\r\n", 2000) + "mn\r\n")) }()
	page := func() string {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + f.MetricsAddr() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		if err := resp.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for range 5 {
		page()
	}
	for line := ""; line != "MN\r\n"; {
		var err error
		if line, err = c.in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	text := page()
	for _, want := range []string{
		"spillway_arrivals_total 4000", `spillway_shed_total{class="set",reason="fraction"} 0`, `spillway_shed_total{class="get",reason="fraction"} 2000`, "spillway_finished_total 2000", "spillway_in_flight 0",
		"spillway_connections 1", `spillway_store{stat="curr_items"} 1`, `spillway_store{stat="bytes"}`, `spillway_controller_meter{meter="asked"} 4000`,
		"spillway_service_seconds_count 2000", "spillway_queueing_seconds_count 2000", "spillway_queue_delay_seconds 0",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(want)).MatchString(text) {
			t.Errorf("no %q on the page", want)
		}
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	hold := &holding{}
	f := start(t, hold, nil)
	c, idle := f.dial(t), f.dial(t)
	idle.do("mn\r\n", "MN\r\n")
	c.send("get a\r\nset b 0 0 1\r\nx\r\n")
	idle.await("spillway", "queued", 2)
	ended := make(chan error)
	go func() { ended <- f.stop() }()
	idle.expectEnd("") // closed at once
	hold.release()
	c.expectEnd("END\r\nSTORED\r\n") // served to the end
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("somebody still listens")
	}
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	f := start(t, &holding{}, func(c *servers.Config, _ *memcached.Config) { c.Grace = 20 * time.Millisecond })
	c, watcher := f.dial(t), f.dial(t)
	c.send("get a\r\n")
	watcher.await("spillway", "queued", 1)
	if err := f.stop(); err != nil { // would hang without a bound
		t.Error(err)
	}
}

func TestListening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) {
		c.Listen = []string{"tcp://127.0.0.1:0", "unix://" + path, "[::1]:0"}
	})
	for _, addr := range f.Addrs() {
		(&fixture{addr: addr}).dial(t).do("mn\r\n", "MN\r\n")
	}
	for _, tc := range []struct {
		listen []string
		want   string
	}{
		{[]string{f.addr}, "choose another port"},
		{[]string{"unix://" + path}, "another server listens"},
		{[]string{"unix:///dev/null"}, "not a socket"},
		{[]string{"nonsense"}, "write host:port"},
		{[]string{"unix://"}, "no path"},
		{nil, "no address"},
	} {
		config := servers.Default()
		config.Listen = tc.listen
		if _, err := servers.New(failing{}, control.Stack{Controller: control.None{}}, config); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want something about %q", tc.listen, err, tc.want)
		}
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	// The file is gone, and one that a crashed server left behind does not matter.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.Listen = []string{"unix://" + path} }).
		dial(t).do("mn\r\n", "MN\r\n")
}
