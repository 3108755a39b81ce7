//go:build linux

package memcached_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestPinsEndWithTheReply: a large value is pinned while its reply is on its way, stays what it was although its key is stored anew, and
// is let go when the client has taken it, or has gone.
func TestPinsEndWithTheReply(t *testing.T) {
	t.Parallel()
	backend, path := startBackend(t)
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	set := func(fill string) string {
		return fmt.Sprintf("set k 0 0 1000000\r\n%s\r\n", strings.Repeat(fill, 1_000_000))
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !is(); {
			if time.Now().After(end) {
				t.Fatalf("waiting until %s: %d items are pinned", what, backend.Pinned())
			}
		}
	}
	writer := dial()
	defer writer.Close()
	store := func(fill string) {
		if _, err := io.WriteString(writer, set(fill)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(writer, make([]byte, len("STORED\r\n"))); err != nil {
			t.Fatal(err)
		}
	}
	store("a")
	slow, gone := dial(), dial()
	defer slow.Close()
	for _, conn := range []net.Conn{slow, gone} {
		if _, err := io.WriteString(conn, "get k\r\nmg k v\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	await("the replies wait for their clients", func() bool { return backend.Pinned() == 1 })
	store("b")
	store("c")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("a", 1_000_000)
	want := "VALUE k 0 1000000\r\n" + value + "\r\nEND\r\nVA 1000000\r\n" + value + "\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(slow, got); err != nil || !bytes.Equal(got, []byte(want)) {
		t.Errorf("%v; what was asked for before it was stored anew came back changed", err)
	}
	await("all is let go", func() bool { return backend.Pinned() == 0 })

	// A shutdown lets go as well: newFake and the leak detector would tell, and so would a crash.
	last := dial()
	defer last.Close()
	if _, err := io.WriteString(last, strings.Repeat("get k\r\n", 20)); err != nil {
		t.Fatal(err)
	}
	await("replies are under way when the test ends", func() bool { return backend.Pinned() > 0 })
}
