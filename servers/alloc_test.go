//go:build linux

package servers_test

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"spillway/control"
	"spillway/servers"
	"spillway/servers/memcached"
)

// TestRequestPathAllocatesNothing counts all allocations of the process while requests go through sockets, loops, gate and store. A get
// may cost none, a set those of the item that it stores.
func TestRequestPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, tc := range []struct {
		name, text, reply string
		most              float64 // allocations a command
	}{
		{name: "get", text: "get key\r\n", reply: "VALUE key 0 3\r\nxyz\r\nEND\r\n"},
		{name: "mg", text: "mg key v s O1 k\r\n", reply: "VA 3 s3 O1 kkey\r\nxyz\r\n"},
		{name: "large", text: "get large\r\n", reply: "VALUE large 0 100000\r\n" + strings.Repeat("v", 100000) + "\r\nEND\r\n"},
		{name: "shed", text: "get key\r\nget key\r\n", reply: "VALUE key 0 3\r\nxyz\r\nEND\r\nSERVER_ERROR overloaded fraction\r\n"},
		{name: "set", text: "set key 0 0 3\r\nxyz\r\n", reply: "STORED\r\n", most: 3},
	} {
		var c control.Controller = control.None{}
		if tc.name == "shed" {
			c = &alternating{n: 1, demand: map[uint32]int{}}
		}
		f := start(t, c, func(c *servers.Config, _ *memcached.Config) { c.Loops = 1 })
		conn := f.dial(t)
		if tc.name == "shed" { // every second one is refused, from the second on
			conn.do("set key 0 0 3\r\nxyz\r\nset key 0 0 3\r\nxyz\r\n", "SERVER_ERROR overloaded fraction\r\nSTORED\r\n")
			conn.do("get key\r\n", "SERVER_ERROR overloaded fraction\r\n")
		} else {
			conn.do("set key 0 0 3\r\nxyz\r\nset large 0 0 100000\r\n"+strings.Repeat("v", 100000)+"\r\n", "STORED\r\nSTORED\r\n")
		}
		const depth, rounds = 16, 100
		send, got := []byte(strings.Repeat(tc.text, depth)), make([]byte, depth*len(tc.reply))
		round := func() {
			if _, err := conn.Write(send); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn.Conn, got); err != nil {
				t.Fatal(err)
			}
		}
		for range rounds { // everything grows to the size that it needs
			round()
		}
		if string(got) != strings.Repeat(tc.reply, depth) {
			t.Fatalf("%s: got %q", tc.name, clip(got))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			round()
		}
		runtime.ReadMemStats(&after)
		// A few are the runtime's own, such as timers.
		if each := float64(after.Mallocs-before.Mallocs) / (depth * rounds); each > tc.most+0.05 {
			t.Errorf("%s: %.3f allocations a command, want at most %v", tc.name, each, tc.most)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	}
}
