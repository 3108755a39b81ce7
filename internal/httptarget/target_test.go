//go:build linux

package httptarget

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a Target whose requests a test sends one by one.
type client struct {
	t       *testing.T
	target  *Target
	clock   *clock.Real
	settled []reqlog.Record
	seq     uint64
}

func open(t *testing.T, url string, change func(*Config)) *client {
	t.Helper()
	c := &client{t: t, clock: clock.NewReal()}
	cfg := Config{
		URL: url, Conns: 1, MaxConns: 1, Clock: c.clock, Timeout: 10 * time.Second, Classes: []string{"small", "large"},
		Settle: func(r *reqlog.Record) { c.settled = append(c.settled, *r) },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if c.target, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.target.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// issue hands over a request of client 0, to be sent with the next flush.
func (c *client) issue(op workloads.Op) {
	rec := reqlog.Record{Seq: c.seq, Intended: c.clock.Now(), Kind: uint8(op.Kind), Class: op.Class, Queued: -1, Service: -1, Keys: 1}
	c.seq++
	c.target.Issue(c.clock.Now(), &rec, &op, 0)
}

// wait waits until so many requests are settled, and returns them.
func (c *client) wait(n int) []reqlog.Record {
	c.t.Helper()
	c.target.Flush(c.clock.Now())
	end := c.clock.Now().Add(20 * time.Second)
	for len(c.settled) < n {
		now := c.clock.Now()
		if now >= end {
			c.t.Fatalf("%d of %d requests are settled after 20 s", len(c.settled), n)
		}
		c.target.Wait(now.Add(100 * time.Millisecond))
	}
	all := c.settled
	c.settled = nil
	return all
}

func (c *client) do(op workloads.Op) reqlog.Record {
	c.t.Helper()
	c.issue(op)
	return c.wait(1)[0]
}

func TestFates(t *testing.T) {
	t.Parallel()
	var seen atomic.Pointer[http.Request]
	var body atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body.Store(string(text))
		seen.Store(r)
		var status int
		var reason string
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/kv/"), "?")
		_, _ = fmt.Sscanf(name, "%d-%s", &status, &reason)
		if reason != "" {
			w.Header().Set("X-Shed-Reason", reason)
		}
		w.Header().Set("Server-Timing", "queue;dur=0.25, service;dur=2")
		if status == 200 {
			_, _ = io.WriteString(w, "value")
			return
		}
		w.WriteHeader(max(status, 200))
	}))
	defer s.Close()
	c := open(t, s.URL+"/kv/{key}?c={class}", func(c *Config) { c.SLOs, c.Priorities = []time.Duration{0, 1}, []uint8{0, 3} })
	for _, tt := range []struct {
		key    string
		class  uint16
		kind   workloads.Kind
		fate   reqlog.Fate
		reason control.Reason
		hits   uint8
	}{
		{"200", 0, workloads.Get, reqlog.OK, 0, 1},
		{"200", 1, workloads.Get, reqlog.Late, 0, 1},
		{"204", 0, workloads.Set, reqlog.OK, 0, 0},
		{"204", 0, workloads.Delete, reqlog.OK, 0, 0},
		{"404", 0, workloads.Get, reqlog.OK, 0, 0},
		{"302", 0, workloads.Get, reqlog.OK, 0, 0},
		{"400", 0, workloads.Get, reqlog.Failed, 0, 0},
		{"500", 0, workloads.Get, reqlog.Failed, 0, 0},
		{"502", 0, workloads.Get, reqlog.Failed, 0, 0},
		{"504", 0, workloads.Get, reqlog.Failed, 0, 0},
		{"429", 0, workloads.Get, reqlog.Rejected, control.Budget, 0},
		{"503", 0, workloads.Get, reqlog.Rejected, control.Resource, 0},
		{"503-queue_full", 0, workloads.Get, reqlog.Rejected, control.QueueFull, 0},
		{"503-codel", 0, workloads.Get, reqlog.Dropped, control.CoDel, 0},
		{"503-expired", 0, workloads.Get, reqlog.Expired, control.Expired, 0},
		{"504-expired", 0, workloads.Get, reqlog.Expired, control.Expired, 0},
		{"503-tuesday", 0, workloads.Get, reqlog.Rejected, control.Resource, 0},
	} {
		op := workloads.Op{Kind: tt.kind, Class: tt.class, Key: []byte(tt.key)}
		if tt.kind == workloads.Set {
			op.Value = []byte("some value")
		}
		r := c.do(op)
		if r.Fate != tt.fate || control.Reason(r.Reason) != tt.reason || r.Hits != tt.hits {
			t.Errorf("%s %s: %s for %s with %d hits, want %s for %s with %d", tt.kind, tt.key, r.Fate, control.Reason(r.Reason), r.Hits, tt.fate, tt.reason, tt.hits)
		}
		if r.Sent < r.Intended || r.Done < r.Sent || r.BytesOut == 0 || r.BytesIn == 0 || r.Attempts != 1 {
			t.Errorf("%s %s: %+v", tt.kind, tt.key, r)
		}
		if r.Queued != 250*time.Microsecond || r.Service != 2*time.Millisecond {
			t.Errorf("%s: the server's timings are %v and %v", tt.key, r.Queued, r.Service)
		}
		asked, class := seen.Load(), []string{"small", "large"}[tt.class]
		method := map[workloads.Kind]string{workloads.Get: "GET", workloads.Set: "PUT", workloads.Delete: "DELETE"}[tt.kind]
		if asked.Method != method || asked.Header.Get("X-Class") != class || asked.URL.RawQuery != "c="+class || body.Load() != string(op.Value) {
			t.Errorf("%s %s was asked as %s %s of class %s, body %q", tt.kind, tt.key, asked.Method, asked.URL, asked.Header.Get("X-Class"), body.Load())
		}
		var priority int
		if _, err := fmt.Sscan(asked.Header.Get("X-Priority"), &priority); err != nil || priority/control.Levels != 3*int(tt.class) {
			t.Errorf("priority %q of class %d", asked.Header.Get("X-Priority"), tt.class)
		}
	}
	if got := c.target.Counters(); got != (load.Counters{}) {
		t.Errorf("counters %+v", got)
	}
}

func TestKeysAreEscaped(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r.URL.Path) }))
	defer s.Close()
	c := open(t, s.URL+"/x/{key}/y", nil)
	const key = "c72us,l0:10us#17 ä/?%{}\x01"
	if r := c.do(workloads.Op{Key: []byte(key)}); r.Fate != reqlog.OK || got.Load() != "/x/"+key+"/y" {
		t.Errorf("%s, asked for %q", r.Fate, got.Load())
	}
}

// TestConnectionsGrow: a request whose connection is busy takes another one, up to the bound, and connections are used again.
func TestConnectionsGrow(t *testing.T) {
	t.Parallel()
	open4 := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-open4 }))
	defer s.Close()
	c := open(t, s.URL, func(c *Config) { c.MaxConns = 4 })
	for range 6 {
		c.issue(workloads.Op{Key: []byte("k")})
	}
	for _, r := range c.wait(2) {
		if r.Fate != reqlog.Unsent || r.Sent != 0 {
			t.Errorf("beyond the bound: %s, sent at %v", r.Fate, r.Sent)
		}
	}
	close(open4)
	for _, r := range c.wait(4) {
		if r.Fate != reqlog.OK {
			t.Error(r.Fate)
		}
	}
	for range 4 {
		c.issue(workloads.Op{Key: []byte("k")})
	}
	c.wait(4)
	if got, want := c.target.Counters(), (load.Counters{WindowFull: 2, Grown: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done() // the client has gone
			gone <- struct{}{}
		}
	}))
	defer s.Close()
	c := open(t, s.URL+"/{key}", func(c *Config) { c.Timeout = 50 * time.Millisecond })
	r := c.do(workloads.Op{Key: []byte("slow")})
	if r.Fate != reqlog.TimedOut || r.Latency() < 50*time.Millisecond {
		t.Errorf("%s after %v", r.Fate, r.Latency())
	}
	<-gone
	c.target.cfg.Timeout = 10 * time.Second
	if r := c.do(workloads.Op{Key: []byte("fast")}); r.Fate != reqlog.OK {
		t.Errorf("%s on a new connection", r.Fate)
	}
	if got, want := c.target.Counters(), (load.Counters{TimedOutReply: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// script answers each connection with texts, one for each request, and closes it at the end of them.
func script(t *testing.T, connections ...[]string) (url string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, texts := range connections {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			for _, text := range texts {
				if n, err := conn.Read(buffer); err != nil || n == 0 {
					break
				}
				requests.Add(1)
				_, _ = io.WriteString(conn, text)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return "http://" + l.Addr().String() + "/", requests
}

const okText = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// TestServerCloses is about every way in which a connection can end, and what comes of the request on it.
func TestServerCloses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		connections [][]string
		fates       []reqlog.Fate
		requests    int64
		want        load.Counters
	}{
		{"idle", [][]string{{okText}, {okText}}, []reqlog.Fate{reqlog.OK, reqlog.OK}, 2, load.Counters{}},
		{"says so", [][]string{{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, {okText}}, []reqlog.Fate{reqlog.OK, reqlog.OK}, 2, load.Counters{}},
		{"ends the body", [][]string{{"HTTP/1.1 200 OK\r\n\r\nall"}, {okText}}, []reqlog.Fate{reqlog.OK, reqlog.OK}, 2, load.Counters{}},
		{"instead of a first reply", [][]string{{""}, {okText}}, []reqlog.Fate{reqlog.Failed, reqlog.OK}, 2, load.Counters{Lost: 1}},
		{"when a request comes", [][]string{{okText, ""}, {okText}}, []reqlog.Fate{reqlog.OK, reqlog.OK}, 3, load.Counters{Reconnects: 1}},
		{"halfway", [][]string{{okText, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"}, {okText}}, []reqlog.Fate{reqlog.OK, reqlog.Failed, reqlog.OK}, 3, load.Counters{Lost: 1}},
		{"after nonsense", [][]string{{"220 mail\r\n"}, {okText}}, []reqlog.Fate{reqlog.Failed, reqlog.OK}, 2, load.Counters{Lost: 1, OutOfStep: 1}},
		{"after too much", [][]string{{okText + okText}, {okText}}, []reqlog.Fate{reqlog.OK, reqlog.OK}, 2, load.Counters{OutOfStep: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := script(t, c.connections...)
			client := open(t, url, nil)
			for i, want := range c.fates {
				if r := client.do(workloads.Op{Key: []byte("k")}); r.Fate != want {
					t.Errorf("request %d: %s, want %s", i, r.Fate, want)
				}
				if c.name == "idle" && i == 0 {
					for client.target.conns[0].State == poll.Up { // until the end of the connection has been noticed
						client.target.Wait(client.clock.Now().Add(time.Millisecond))
					}
				}
			}
			if got := client.target.Counters(); got != c.want || requests.Load() != c.requests {
				t.Errorf("%+v after %d requests, want %+v after %d", got, requests.Load(), c.want, c.requests)
			}
		})
	}
}

// TestServerGoesAway: requests to a server that is not there fail at once, and are served when it is back.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	c := open(t, s.URL+"/{key}", nil)
	c.do(workloads.Op{Key: []byte("k")})
	addr := s.Listener.Addr().String()
	s.Close()
	for range 3 {
		if r := c.do(workloads.Op{Key: []byte("k")}); r.Fate != reqlog.Failed || r.Sent == 0 {
			t.Errorf("%s, sent at %v", r.Fate, r.Sent)
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip("somebody else has taken the port: ", err)
	}
	back := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan struct{})
	go func() { defer close(served); _ = back.Serve(l) }()
	defer func() { _ = back.Close(); <-served }()
	for end := c.clock.Now().Add(20 * time.Second); ; {
		if r := c.do(workloads.Op{Key: []byte("k")}); r.Fate == reqlog.OK {
			return
		}
		if c.clock.Now() > end {
			t.Fatal("the server is back, and nothing is served")
		}
		c.target.Wait(c.clock.Now().Add(10 * time.Millisecond))
	}
}

// TestLargeValues: what the kernel does not take at once is sent as it takes it, and replies of any size are read to their end.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	stored := make(chan int64, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n, _ := io.Copy(io.Discard, r.Body)
			stored <- n
			return
		}
		_, _ = w.Write(make([]byte, 20<<20)) // in chunks
	}))
	defer s.Close()
	c := open(t, s.URL+"/{key}", nil)
	value := make([]byte, 20<<20)
	if r := c.do(workloads.Op{Kind: workloads.Set, Key: []byte("k"), Value: value}); r.Fate != reqlog.OK || <-stored != int64(len(value)) {
		t.Error(r.Fate)
	}
	if r := c.do(workloads.Op{Key: []byte("k")}); r.Fate != reqlog.OK || int(r.BytesIn) < len(value) {
		t.Errorf("%s, %d bytes", r.Fate, r.BytesIn)
	}
	if c.target.Counters().SocketFull == 0 {
		t.Error("the kernel is said to have taken 20 MiB at once")
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Template{
		"http://a:8080/kv/{key}":           {Address: "a:8080", Host: "a:8080", Keyed: true, before: "/kv/"},
		"http://a":                         {Address: "a:80", Host: "a", before: "/"},
		"http://[::1]:1/{class}?q={key}&x": {Address: "[::1]:1", Host: "[::1]:1", Keyed: true, before: "/{class}?q=", after: "&x"},
	} {
		got, err := ParseURL(text)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Template{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{
		"", "a:80", "https://a/", "http://", "http:///x", "http://u@a/", "http://a/#f", "http://{key}/", "http://a/{key}/{key}", "http://a/{kye}", "http://a:99999/", "http://a:x/",
	} {
		if _, err := ParseURL(text); err == nil || !strings.Contains(err.Error(), "write http://host:port/path") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/"
	_ = l.Close()
	cfg := Config{URL: url, Conns: 1, Clock: clock.NewReal(), Timeout: time.Second, Settle: func(*reqlog.Record) {}}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "connection 1 of 1") {
		t.Error(err)
	}
	if _, err := Probe(t.Context(), url); err == nil || !strings.Contains(err.Error(), "connecting to "+url) {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"connections": func(c *Config) { c.Conns = 0 }, "fall": func(c *Config) { c.Conns, c.MaxConns = 5, 4 }, "sender": func(c *Config) { c.Shards = 2 },
		"timeout": func(c *Config) { c.Timeout = 0 }, "clock": func(c *Config) { c.Clock = nil }, "header": func(c *Config) { c.ClassHeader = "a b" },
	} {
		wrong := cfg
		change(&wrong)
		if _, err := Open(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRequestsAllocateNothing, the garbage collector's pauses being pauses of the sender.
func TestRequestsAllocateNothing(t *testing.T) {
	url := raw(t, okText)
	c := open(t, url, nil)
	op := workloads.Op{Key: []byte("key")}
	rec := reqlog.Record{Keys: 1}
	done := false
	c.target.cfg.Settle = func(*reqlog.Record) { done = true }
	once := func() {
		now := c.clock.Now()
		rec.Intended, done = now, false
		c.target.Issue(now, &rec, &op, 0)
		c.target.Flush(now)
		for !done {
			c.target.Wait(now.Add(time.Second))
		}
	}
	for range 10 {
		once()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 1000
	for range n {
		once()
	}
	runtime.ReadMemStats(&after)
	if got := float64(after.Mallocs-before.Mallocs) / n; got > 0.05 { // the runtime's own, now and then
		t.Errorf("%.2f allocations a request", got)
	}
}

// raw is a server that answers whatever comes in one piece with one text, and allocates nothing meanwhile.
func raw(t testing.TB, text string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer, answer := make([]byte, 4096), []byte(text)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended }) // after the client, which was opened later, is closed
	return "http://" + l.Addr().String() + "/{key}"
}

func TestPreload(t *testing.T) {
	t.Parallel()
	values := map[string]string{}
	var lock = make(chan struct{}, 1)
	var shed atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if shed.Add(1)%5 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		lock <- struct{}{}
		defer func() { <-lock }()
		if r.Method == http.MethodPut {
			values[r.URL.Path] = string(body)
			return
		}
		v, ok := values[r.URL.Path]
		if !ok || r.Header.Get("X-Class") != "small" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, v)
	}))
	defer s.Close()
	kv, err := workloads.NewKV([]workloads.KVClass{{Name: "small", Share: 1, Keys: 200, KeyPrefix: "k", ValueSize: dist.Constant{Unit: dist.Bytes, Value: 100}}})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := Preload(t.Context(), s.URL+"/{key}", []string{"small"}, kv)
	if err != nil || stored.Items != 200 || stored.Bytes != 200*100 || len(values) != 200 {
		t.Errorf("%+v, %v; the server has %d", stored, err, len(values))
	}
	if _, err := Preload(t.Context(), s.URL+"/", []string{"small"}, kv); err == nil {
		t.Error("something was stored where there are no keys")
	}
	if _, err := Preload(t.Context(), s.URL+"/{key}", []string{"other"}, kv); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Preload(cancelled, s.URL+"/{key}", []string{"small"}, kv); err == nil {
		t.Error("it went on after its time")
	}
}

// BenchmarkRequest is a request and its reply on one connection, one after the other: the client's cost, the kernel's and that of a server that
// does nothing.
func BenchmarkRequest(b *testing.B) {
	done := false
	real := clock.NewReal()
	target, err := Open(b.Context(), Config{
		URL: raw(b, okText), Conns: 1, Clock: real, Timeout: 10 * time.Second, Spin: load.SpinAlways, Settle: func(*reqlog.Record) { done = true },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close()
	op, rec := workloads.Op{Key: []byte("key")}, reqlog.Record{Keys: 1}
	for b.Loop() {
		now := real.Now()
		rec.Intended, done = now, false
		target.Issue(now, &rec, &op, 0)
		target.Flush(now)
		for !done {
			target.Wait(now.Add(time.Second))
		}
	}
}

// BenchmarkParser is the reply of a server of ours, taken apart.
func BenchmarkParser(b *testing.B) {
	reply := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: application/octet-stream\r\nServer: spillway\r\n" +
		"Server-Timing: queue;dur=0.009, service;dur=0.006\r\nDate: Mon, 30 Nov 2026 04:15:30 GMT\r\n\r\nhello")
	var p parser
	for b.Loop() {
		p.begin()
		if _, done, err := p.feed(reply); !done || err != nil {
			b.Fatal(err)
		}
	}
}
