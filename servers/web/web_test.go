//go:build linux

package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/servers/synthetic"
	"spillway/servers/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started is a server under test.
type started struct {
	*web.Server
	t    testing.TB
	url  string // with a slash at its end
	stop func() error
}

// work is the path of work, which must not stand in a text as the path of a computer would.
const work = "work/"

// start starts a server with values and work, under the controller called name.
func start(t testing.TB, name string, settings []string, change func(*web.Config)) *started {
	t.Helper()
	c := web.Default()
	c.Listen, c.Classes, c.Otherwise, c.Cores = []string{"127.0.0.1:0"}, []string{"high", "low"}, 1, 2
	if change != nil {
		change(&c)
	}
	parsed, err := catalog.ParseSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	var classes []catalog.Class
	for _, name := range c.Classes {
		limit := 50 * time.Millisecond
		classes = append(classes, catalog.Class{Name: name, Limit: limit, SLO: []catalog.Objective{{Percentile: 0.99, Limit: limit}}})
	}
	stack, err := catalog.New(name, parsed, catalog.Env{Cores: c.Cores, SLO: 50 * time.Millisecond, Seed: 1, Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	return startStack(t, stack, c)
}

func startStack(t testing.TB, stack control.Stack, c web.Config) *started {
	t.Helper()
	services := map[string]web.Service{}
	if c.Upstream == "" {
		values, err := web.NewCached(8<<20, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		host, err := synthetic.NewHost(synthetic.Config{Memory: 16 << 20, Buffer: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		services["kv"], services["work"] = web.NewKV(values, 64<<10), web.NewWork(host)
	}
	s, err := web.New(services, stack, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return &started{Server: s, t: t, url: "http://" + s.Addrs()[0] + "/", stop: stop}
}

// do sends a request whose headers are name and value in turn.
func (s *started) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply, string(text)
}

// stats returns the server's figures.
func (s *started) stats() map[string]float64 {
	s.t.Helper()
	_, text := s.do("GET", "stats", "")
	all := map[string]float64{}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// await waits until a figure has a value.
func (s *started) await(name string, want float64) {
	s.t.Helper()
	deadline, ticker := time.After(20*time.Second), time.NewTicker(2*time.Millisecond)
	defer ticker.Stop()
	for {
		got := s.stats()[name]
		if got == want {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			s.t.Fatalf("%s is %g, want %g", name, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "kv/a", "", 404, "no such key\n"},
		{"PUT", "kv/a", "value", 204, ""},
		{"GET", "kv/a", "", 200, "value"},
		{"HEAD", "kv/a", "", 200, ""},
		{"PUT", "kv/a", "", 204, ""},
		{"GET", "kv/a", "", 200, ""},
		{"DELETE", "kv/a", "", 204, ""},
		{"DELETE", "kv/a", "", 404, "no such key\n"},
		{"PUT", "kv/a%2Fb%20c", "1", 204, ""},
		{"GET", "kv/a/b%20c", "", 200, "1"},
		{"POST", "kv/a", "", 405, "the method is not one of GET, HEAD, PUT, DELETE\n"},
		{"GET", "kv/", "", 400, "a key has from 1 to 250 bytes\n"},
		{"GET", "kv/" + strings.Repeat("x", 251), "", 400, "a key has from 1 to 250 bytes\n"},
		{"PUT", "kv/large", strings.Repeat("x", 64<<10+1), 413, "the value is too large\n"},
		{"PUT", "kv/large", strings.Repeat("x", 1<<20+1), 413, "the body is too large\n"},
		{"GET", "nowhere", "", 404, "404 page not found\n"},
		{"GET", "", "", 404, "404 page not found\n"},
		{"GET", "healthz", "", 200, "ok\n"},
		{"GET", work + "c10us,d1us,s4096,m4096,e0,l3:1us,x0", "", 204, ""},
		{"GET", work + "e0,c1us", "", 204, ""}, // the section is left in the end
		{"GET", work + "e0,c1us", "", 204, ""},
		{"GET", work + "m33554432", "", 500, "out of memory: requests would hold more than 16777216 bytes\n"},
		{"GET", work + "c11s", "", 400, "step \"c11000ms\": on a real machine no step may hold a core for longer than 10s\n"},
	} {
		reply, got := s.do(c.method, c.path, c.body)
		if reply.StatusCode != c.status || got != c.want {
			t.Errorf("%s %.40s: %d %q, want %d %q", c.method, c.path, reply.StatusCode, got, c.status, c.want)
		}
	}
	all := s.stats()
	for name, want := range map[string]float64{
		"get_hits": 7, "get_misses": 1, "cmd_set": 3, "delete_hits": 1, "delete_misses": 1, "wrong_keys": 1, "memory_held": 0, "in_service": 0,
	} {
		if all[name] != want {
			t.Errorf("%s is %g, want %g", name, all[name], want)
		}
	}
	reply, page := s.do("GET", "metrics", "")
	if reply.StatusCode != 200 || !strings.Contains(page, `spillway_class_arrivals_total{class="low"}`) || !strings.Contains(page, `spillway_store{stat="cmd_set"} 3`) {
		t.Errorf("metrics: %d\n%s", reply.StatusCode, page)
	}
}

// TestTimings: replies say how long a request has waited for its slot, and how long it took.
func TestTimings(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.Slots = 1 })
	var replies sync.WaitGroup
	replies.Go(func() { s.do("GET", work+"d50ms", "") })
	s.await("in_service", 1)
	reply, _ := s.do("GET", work+"d10ms", "")
	replies.Wait()
	var queue, service float64
	if _, err := fmt.Sscanf(reply.Header.Get("Server-Timing"), "queue;dur=%f, service;dur=%f", &queue, &service); err != nil {
		t.Fatal(err)
	}
	if queue < 1 || service < 10 {
		t.Errorf("queued for %g ms and served for %g ms", queue, service)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	by := func(t *testing.T, change func(*web.Config), path string, headers []string, class string) {
		t.Helper()
		s := start(t, "none", nil, change)
		if reply, _ := s.do("PUT", path, "x", headers...); reply.StatusCode != 204 {
			t.Errorf("%s: %s", path, reply.Status)
		}
		if got := s.stats()["arrivals_"+class]; got != 1 {
			t.Errorf("%s %v is not of class %s", path, headers, class)
		}
	}
	inPath := func(c *web.Config) { c.ClassInPath = true }
	by(t, nil, "kv/a", []string{"X-Class", "high"}, "high")
	by(t, nil, "kv/a", []string{"X-Class", "middle"}, "low")
	by(t, nil, "kv/a", nil, "low")
	by(t, func(c *web.Config) { c.ClassHeader = "Tenant" }, "kv/a", []string{"X-Class", "low", "Tenant", "high"}, "high")
	by(t, inPath, "high/kv/a", []string{"X-Class", "low"}, "high")
	by(t, inPath, "kv/a", []string{"X-Class", "high"}, "low")
}

// TestQuota: who has no tokens left is told 429, with when to come back; others have theirs.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := start(t, "capacity", []string{"baseline=3,0.2", "cycle=1s"}, nil)
	shed := 0
	for range 10 {
		reply, text := s.do("PUT", "kv/a", "x", "X-Class", "high")
		h := reply.Header
		if h.Get("RateLimit-Policy") != `"high";q=3;w=1` || !strings.HasPrefix(h.Get("RateLimit"), `"high";r=`) {
			t.Errorf("%q, %q", h.Get("RateLimit-Policy"), h.Get("RateLimit"))
		}
		switch reply.StatusCode {
		case 204:
		case 429:
			shed++
			if h.Get("Retry-After") != "1" || h.Get(web.HeaderReason) != "budget" || text != "overloaded: budget\n" {
				t.Errorf("%v %q", h, text)
			}
		default:
			t.Error(reply.Status)
		}
	}
	if shed < 6 { // it took less than a second
		t.Errorf("%d of 10 were shed, 3 a second are granted", shed)
	}
	if reply, _ := s.do("PUT", "kv/a", "x"); reply.StatusCode != 204 {
		t.Errorf("the other class: %s", reply.Status)
	}
	reply, _ := s.do("PUT", "kv/a", "x")
	if reply.StatusCode != 429 || reply.Header.Get("Retry-After") < "4" || reply.Header.Get("RateLimit-Policy") != `"low";q=0;w=1` {
		t.Errorf("the other class again: %s %v", reply.Status, reply.Header)
	}
	if got := s.stats(); got["shed_high_budget"] != float64(shed) || got["shed_low_budget"] != 1 || got["meter_grant_0"] != 3 {
		t.Errorf("%v", got)
	}
	if reply, _ := s.do("GET", "healthz", ""); reply.StatusCode != 200 {
		t.Errorf("health is subject to admission: %s", reply.Status)
	}
}

// TestOverload: every controller of the catalog works behind it, and everybody is answered 204, 429 or 503, with a reason.
func TestOverload(t *testing.T) {
	t.Parallel()
	for _, name := range catalog.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, name, map[string][]string{"capacity": {"baseline=50,50"}}[name], func(c *web.Config) { c.Queue, c.Cores = 20, 1 })
			var clients sync.WaitGroup
			for i := range 60 {
				clients.Go(func() {
					for range 3 {
						reply, text := s.do("GET", work+"c200us,l0:100us,e0,s65536,x0", "", "X-Class", []string{"high", "low"}[i%2], "X-Priority", fmt.Sprint(i))
						why := reply.Header.Get(web.HeaderReason)
						switch _, known := control.ParseReason([]byte(why)); {
						case reply.StatusCode == 204:
						case (reply.StatusCode == 429 || reply.StatusCode == 503) && known && reply.Header.Get("Retry-After") != "" && text == "overloaded: "+why+"\n":
						default:
							t.Errorf("%s for %q: %q", reply.Status, why, text)
						}
					}
				})
			}
			clients.Wait()
			got := s.stats()
			if got["arrivals"] != 180 || got["in_service"] != 0 || got["queued"] != 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestDeadline: who has waited too long is told so when the time is up, and not when it would be served.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.Slots, c.Deadline = 1, 20*time.Millisecond })
	hold := s.hold()
	reply, text := s.do("GET", "kv/a", "")
	if reply.StatusCode != 503 || reply.Header.Get(web.HeaderReason) != "expired" || text != "overloaded: expired\n" {
		t.Errorf("%s %q", reply.Status, text)
	}
	_ = hold.Close()
	s.await("in_service", 0)
}

// hold sends a request that is served until the connection that is returned is closed.
func (s *started) hold() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	before := s.stats()["in_service"]
	if _, err := io.WriteString(c, "GET /"+work+"d1h HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	s.await("in_service", before+1)
	return c
}

// TestShutdown: what is under way is finished; who waits is told; who hangs on is cut off in time.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.Slots, c.Grace = 2, 200*time.Millisecond })
	hanging := s.hold()
	var waiting sync.WaitGroup
	var served, told *http.Response
	waiting.Go(func() { served, _ = s.do("GET", work+"d50ms", "") })
	s.await("in_service", 2)
	stuck := s.hold2()
	waiting.Go(func() { told, _ = s.do("GET", "kv/a", "") })
	s.await("queued", 2)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	waiting.Wait()
	if served.StatusCode != 204 {
		t.Errorf("what was under way: %s", served.Status)
	}
	if told.StatusCode != 503 || told.Header.Get("Retry-After") == "" {
		t.Errorf("who waited: %s", told.Status)
	}
	for _, c := range []net.Conn{hanging, stuck} {
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("who hung on: %v", err)
		}
	}
	if _, err := net.Dial("tcp", s.Addrs()[0]); err == nil {
		t.Error("it still accepts")
	}
}

// hold2 is hold for a request that has to wait.
func (s *started) hold2() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "GET /"+work+"d1h HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	s.await("queued", 1)
	return c
}

// TestHTTP2 talks to the server as another implementation of HTTP/2 without TLS does.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := start(t, "fixed", []string{"limit=1", "queue=1"}, nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ask := func(ctx context.Context, method, path, body string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
		if err != nil {
			return nil, "", err
		}
		reply, err := client.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		return reply, string(text), err
	}
	if reply, _, err := ask(t.Context(), "PUT", "kv/a", "value"); err != nil || reply.ProtoMajor != 2 || reply.StatusCode != 204 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if reply, text, err := ask(t.Context(), "GET", "kv/a", ""); err != nil || text != "value" || reply.Header.Get("Server-Timing") == "" {
		t.Errorf("%q, %v, %v", text, reply, err)
	}
	// Streams of one connection are requests like any others: one is served, one waits, one is turned away.
	first, leave := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	for i := range 2 {
		streams.Go(func() { _, _, _ = ask(first, "GET", work+"d1h", "") })
		s.await([]string{"in_service", "queued"}[i], 1)
	}
	if reply, _, err := ask(t.Context(), "GET", "kv/a", ""); err != nil || reply.StatusCode != 503 || reply.Header.Get(web.HeaderReason) == "" {
		t.Errorf("%v, %v", reply, err)
	}
	leave()
	streams.Wait()
	s.await("in_service", 0)
	if got := s.stats(); got["total_connections"] > 3 {
		t.Errorf("%g connections", got["total_connections"])
	}
}

// TestRefusedConfigurations holds each setting against what it must be.
func TestRefusedConfigurations(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*web.Config){
		"no address":      func(c *web.Config) { c.Listen = nil },
		"address":         func(c *web.Config) { c.Listen = []string{"8080"} },
		"no classes":      func(c *web.Config) { c.Classes = nil },
		"same class":      func(c *web.Config) { c.Classes = []string{"a", "a"} },
		"class of a path": func(c *web.Config) { c.Classes = []string{"a/b"} },
		"otherwise":       func(c *web.Config) { c.Otherwise = 1 },
		"queue":           func(c *web.Config) { c.Queue = -1 },
		"connections":     func(c *web.Config) { c.MaxConns = 0 },
		"header":          func(c *web.Config) { c.MaxHeader = 100 },
		"slow header":     func(c *web.Config) { c.HeaderTimeout = 0 },
		"upstream":        func(c *web.Config) { c.Upstream = "127.0.0.1:80" },
		"class header":    func(c *web.Config) { c.ClassHeader = "X Class" },
	} {
		c := web.Default()
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	stack, err := catalog.New("capacity", map[string]any{"baseline": "1,2,3"}, catalog.Env{Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := web.New(nil, stack, web.Default()); err == nil || !strings.Contains(err.Error(), "3 baselines for 1 classes") {
		t.Error(err)
	}
}

// TestProxy: an edge passes on what it admits, with the class, and nothing else.
func TestProxy(t *testing.T) {
	t.Parallel()
	origin := start(t, "none", nil, func(c *web.Config) { c.Origin = true })
	edge := start(t, "capacity", []string{"baseline=5,100", "cycle=10s"}, func(c *web.Config) {
		c.Upstream, c.ClassInPath, c.UpstreamConns = strings.TrimSuffix(origin.url, "/"), true, 4
	})
	const key = "low/kv/a%2Fb%20%C3%A4?x=1"
	if reply, _ := edge.do("PUT", key, "value"); reply.StatusCode != 204 {
		t.Fatal(reply.Status)
	}
	reply, text := edge.do("GET", key, "")
	if reply.StatusCode != 200 || text != "value" || len(reply.Header.Values("Server-Timing")) != 1 || len(reply.Header.Values("Server")) != 1 {
		t.Errorf("%s %q %v", reply.Status, text, reply.Header)
	}
	if _, text := origin.do("GET", "kv/a/b%20%C3%A4", ""); text != "value" {
		t.Errorf("the origin has %q", text)
	}
	var clients sync.WaitGroup
	for range 80 {
		clients.Go(func() {
			if reply, _ := edge.do("GET", "high/"+work+"d1ms", ""); reply.StatusCode != 204 && reply.StatusCode != 429 {
				t.Error(reply.Status)
			}
		})
	}
	clients.Wait()
	_, page := origin.do("GET", "origin", "")
	var counts web.OriginCounts
	if err := json.Unmarshal([]byte(page), &counts); err != nil {
		t.Fatal(err)
	}
	var high, low uint32
	for _, slot := range counts.Counts {
		high, low = high+slot[0], low+slot[1]
	}
	if high < 50 || high > 60 || low != 3 {
		t.Errorf("the origin was asked %d and %d times", high, low)
	}
	if got := origin.stats()["total_connections"]; got > 6 {
		t.Errorf("%g connections to the origin", got)
	}
	if reply, _ := edge.do("GET", "origin", ""); reply.StatusCode != 404 {
		t.Errorf("the edge counts too: %s", reply.Status)
	}
	if err := origin.stop(); err != nil {
		t.Error(err)
	}
	if reply, _ := edge.do("GET", key, ""); reply.StatusCode != 502 {
		t.Errorf("with the origin gone: %s", reply.Status)
	}
}

// raw is a connection on which a test says what no client would.
type raw struct {
	net.Conn
	in *bufio.Reader
	t  *testing.T
}

func (s *started) raw(t *testing.T, text string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Log(err) // it may have been cut off in the middle
	}
	return &raw{c, bufio.NewReader(c), t}
}

// status reads one reply; 0 is the end of the connection.
func (r *raw) status() int {
	r.t.Helper()
	reply, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, reply.Body)
	_ = reply.Body.Close()
	return reply.StatusCode
}
