//go:build linux

package web_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"spillway/servers/web"
)

// TestMalformedRequests: what is no HTTP, or could be understood in two ways, is answered with what is wrong and the end of the connection.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.MaxHeader, c.HeaderTimeout = 8<<10, 300*time.Millisecond })
	const host = "Host: x\r\n"
	put := "PUT /kv/a HTTP/1.1\r\n" + host
	for _, c := range []struct {
		name, text string
		want       []int // replies, 0 being the end of the connection
	}{
		{"nonsense", "hello\r\n\r\n", []int{400, 0}},
		{"bytes", "\x00\x01\x02\r\n\r\n", []int{400, 0}},
		{"no host", "GET /kv/a HTTP/1.1\r\n\r\n", []int{400, 0}},
		{"two hosts", "GET /kv/a HTTP/1.1\r\n" + host + "Host: y\r\n\r\n", []int{400, 0}},
		{"another protocol", "GET /kv/a HTTP/3.0\r\n" + host + "\r\n", []int{505, 0}},
		{"huge line", "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\n" + host + "\r\n", []int{431, 0}},
		{"huge header", "GET /kv/a HTTP/1.1\r\n" + host + "A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", []int{431, 0}},
		{"many headers", "GET /kv/a HTTP/1.1\r\n" + host + strings.Repeat("A: b\r\n", 10000) + "\r\n", []int{431, 0}},
		{"space before the colon", put + "Content-Length : 1\r\n\r\na", []int{400, 0}},
		{"folded header", put + "A: b\r\n c\r\nContent-Length: 1\r\n\r\na", []int{204}}, // package http unfolds it, as may be
		{"length of letters", put + "Content-Length: a\r\n\r\na", []int{400, 0}},
		{"signed length", put + "Content-Length: +1\r\n\r\na", []int{400, 0}},
		{"negative length", put + "Content-Length: -1\r\n\r\na", []int{400, 0}},
		{"two lengths", put + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", []int{400, 0}},
		{"list of lengths", put + "Content-Length: 1, 2\r\n\r\nab", []int{400, 0}},
		{"enormous length", put + "Content-Length: 9999999999999\r\n\r\na", []int{413, 0}},
		{"unknown coding", put + "Transfer-Encoding: gzip\r\n\r\na", []int{501, 0}},
		{"hidden coding", put + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{501, 0}},
		{"two codings", put + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", []int{501, 0}},
		{"malformed chunk", put + "Transfer-Encoding: chunked\r\n\r\nx\r\n", []int{400, 0}},
		{"chunk without end", put + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", []int{400, 0}},
		// Whoever goes by the length sees one request here, whoever goes by the chunks two: the second is never served.
		{
			"length and chunks", put + "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /kv/smuggled HTTP/1.1\r\n" + host + "\r\n",
			[]int{204, 0},
		},
		{
			"chunks and length", put + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk("GET /kv/smuggled HTTP/1.1\r\n"+host+"\r\n") + "0\r\n\r\n",
			[]int{204, 0},
		},
		{"upgrade", "GET /kv/a HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", []int{200}},
		{"pipelined", "GET /healthz HTTP/1.1\r\n" + host + "\r\nGET /healthz HTTP/1.1\r\n" + host + "\r\n", []int{200, 200}},
	} {
		r := s.raw(t, c.text)
		for i, want := range c.want {
			if got := r.status(); got != want {
				t.Errorf("%s: reply %d is %d, want %d", c.name, i, got, want)
			}
		}
		_ = r.Close()
	}
	s.await("curr_connections", 1) // that of the question itself
	if got := s.stats(); got["in_service"] != 0 || got["get_misses"] != 0 {
		t.Errorf("%v", got)
	}
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// TestSlowClients: whoever takes too long with a header or a body is cut off, and keeps nobody else from being served.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) {
		c.HeaderTimeout, c.BodyTimeout, c.IdleTimeout, c.WriteTimeout, c.Slots = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, 4
	})
	silent := s.raw(t, "")
	halfHeader := s.raw(t, "GET /kv/a HTTP/1.1\r\nHost: x\r\nA: ")
	idle := s.raw(t, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	halfBody := s.raw(t, "PUT /kv/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
	halfChunk := s.raw(t, "PUT /kv/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n12345")
	if reply, _ := s.do("PUT", "kv/b", "x"); reply.StatusCode != 204 {
		t.Errorf("somebody else: %s", reply.Status)
	}
	for _, c := range []struct {
		name string
		conn *raw
		want []int
	}{
		{"silent", silent, []int{0}}, {"half a header", halfHeader, []int{0}}, {"idle", idle, []int{200, 0}},
		{"half a body", halfBody, []int{408, 0}}, {"half a chunk", halfChunk, []int{408, 0}},
	} {
		for i, want := range c.want {
			if got := c.conn.status(); got != want {
				t.Errorf("%s: reply %d is %d, want %d", c.name, i, got, want)
			}
		}
	}
	s.await("in_service", 0)
}

// TestDripping: a header that comes byte by byte, each in time, is not given more time than one that stops.
func TestDripping(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.HeaderTimeout = 200 * time.Millisecond })
	c := s.raw(t, "GET /kv/a HTTP/1.1\r\nHost: x\r\n")
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-ticker.C {
		if _, err := io.WriteString(c, "A: b\r\n"); err != nil {
			return // it has been closed
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still being listened to")
		}
	}
}

// TestTooManyConnections: who comes beyond the bound is told so in HTTP, and closed; those within are served.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.MaxConns = 3 })
	within := s.raw(t, "")
	s.await("curr_connections", 2)
	also := s.raw(t, "")
	s.await("curr_connections", 3)
	for range 10 {
		r := s.raw(t, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := r.status(); got != 503 {
			t.Errorf("beyond the bound: %d", got)
		}
		if got := r.status(); got != 0 {
			t.Errorf("beyond the bound, and still open: %d", got)
		}
	}
	if got := s.stats(); got["rejected_connections"] != 10 || got["curr_connections"] != 3 {
		t.Errorf("%v", got)
	}
	for _, r := range []*raw{within, also} {
		if _, err := io.WriteString(r, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil || r.status() != 200 {
			t.Errorf("within the bound: %v", err)
		}
	}
	_ = within.Close()
	s.await("curr_connections", 2)
	if r := s.raw(t, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); r.status() != 200 {
		t.Error("a place that has become free is not given away")
	}
}

// TestClientsGoAway: a request whose client has gone keeps nothing, wherever it is.
func TestClientsGoAway(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.Slots = 1 })
	served := s.hold()
	waiting := s.hold2()
	_ = waiting.Close()
	s.await("queued", 0)
	_ = served.Close()
	s.await("in_service", 0)
	if reply, _ := s.do("GET", work+"m1048576,c1us", ""); reply.StatusCode != 204 {
		t.Error(reply.Status)
	}
	if got := s.stats(); got["memory_held"] != 0 {
		t.Errorf("%g bytes are held", got["memory_held"])
	}
}

// TestSmuggledPastAnEdge: the origin sees the requests that the edge has served, and never what was hidden in a body.
func TestSmuggledPastAnEdge(t *testing.T) {
	t.Parallel()
	origin := start(t, "none", nil, nil)
	edge := start(t, "none", nil, func(c *web.Config) { c.Upstream = strings.TrimSuffix(origin.url, "/") })
	hidden := "GET /kv/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, text := range []string{
		fmt.Sprintf("PUT /kv/a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", len(hidden)+5, hidden),
		fmt.Sprintf("PUT /kv/a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden),
		fmt.Sprintf("PUT /kv/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden),
		"PUT /kv/a HTTP/1.1\r\nHost: x\r\nConnection: Content-Length\r\nContent-Length: 1\r\n\r\na",
	} {
		r := edge.raw(t, text)
		if got := r.status(); got != 204 {
			t.Errorf("%.90q: %d", text, got)
		}
		_ = r.Close()
	}
	if got := origin.stats(); got["arrivals"] != 4 || got["cmd_set"] != 4 || got["cmd_get"] != 0 {
		t.Errorf("the origin has seen %g requests, %g of them reads", got["arrivals"], got["cmd_get"])
	}
}

// TestSlowReaders: a client that does not take its reply is cut off, and its memory given back.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	s := start(t, "none", nil, func(c *web.Config) { c.WriteTimeout = 200 * time.Millisecond })
	if reply, _ := s.do("PUT", "kv/a", strings.Repeat("x", 60<<10)); reply.StatusCode != 204 {
		t.Fatal(reply.Status)
	}
	c, err := net.Dial("tcp", s.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	for range 200 { // more than the buffers of both sides take
		if _, err := io.WriteString(c, "GET /kv/a HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			break
		}
	}
	s.await("in_service", 0)
	s.await("curr_connections", 1)
}
