//go:build linux

package servers

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"spillway/internal/poll"
)

// TestAcceptedSocketsAreKeptAlive: a client whose computer is gone must be noticed, or it would hold its credits for ever.
func TestAcceptedSocketsAreKeptAlive(t *testing.T) {
	t.Parallel()
	l, err := open("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	c, err := net.Dial("tcp", l.name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}, 10_000); err != nil {
		t.Fatal(err)
	}
	fd, err := poll.Accept(l.fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, o := range keepAlive {
		if got, err := unix.GetsockoptInt(fd, o.level, o.name); err != nil || got != o.value {
			t.Errorf("option %d is %d, %v; want %d", o.name, got, err, o.value)
		}
	}
}
