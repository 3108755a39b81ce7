//go:build linux

package poll_test

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"spillway/internal/poll"
)

// TestSendAndRecv: they do for sockets what Write and Read do, at the ends of the stream too.
func TestSendAndRecv(t *testing.T) {
	t.Parallel()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := pair[0], pair[1]
	defer unix.Close(a)
	buf := make([]byte, 1<<20)
	if n, err := poll.Recv(a, buf); n != 0 || err != unix.EAGAIN {
		t.Errorf("receiving nothing: %d, %v", n, err)
	}
	for _, size := range []int{1, 1000, 100_000} { // the last is more than is sent without telling the scheduler
		text := bytes.Repeat([]byte("x"), size)
		sent, err := poll.Send(b, text)
		if err != nil || sent == 0 {
			t.Fatalf("sending %d: %d, %v", size, sent, err)
		}
		for got := 0; got < sent; {
			n, err := poll.Recv(a, buf)
			if err != nil || n == 0 || !bytes.Equal(buf[:n], text[:n]) {
				t.Fatalf("receiving %d of %d: %d, %v", got, sent, n, err)
			}
			got += n
		}
	}
	if n, err := poll.Send(b, nil); n != 0 || err != nil {
		t.Errorf("sending nothing: %d, %v", n, err)
	}
	for {
		if _, err = poll.Send(a, buf); err != nil {
			break
		}
	}
	if err != unix.EAGAIN {
		t.Errorf("sending to a socket that is full: %v", err)
	}
	if err := unix.Close(b); err != nil {
		t.Fatal(err)
	}
	if n, err := poll.Recv(a, buf); n != 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("receiving at the end: %d, %v", n, err)
	}
	if _, err := poll.Send(a, buf); !errors.Is(err, unix.EPIPE) { // and no signal
		t.Errorf("sending to nobody: %v", err)
	}
}
