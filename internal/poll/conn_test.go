//go:build linux

package poll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mustAccept takes the connection that is there or about to be.
func mustAccept(t *testing.T, listener int) (fd int) {
	t.Helper()
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}, 10_000); err != nil {
		t.Fatal(err)
	}
	fd, err := Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func mustListen(t *testing.T, network, addr string) (fd int, bound string) {
	t.Helper()
	fd, at, err := Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd, at.String()
}

func mustDial(t *testing.T, p *Poller, network, addr string) Conn {
	t.Helper()
	c, err := p.Dial(t.Context(), network, addr, 5*time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// establish waits until it is known what has come of Connect.
func establish(t *testing.T, p *Poller, c *Conn) error {
	t.Helper()
	if c.State != Connecting {
		t.Fatalf("state %d, not connecting", c.State)
	}
	events, _ := mustWait(t, p, -1)
	if len(events) != 1 || events[0].Token != c.Token {
		t.Fatalf("got %+v", events)
	}
	return c.Connected()
}

// TestConnection: it is dialled, closed and established anew without waiting, over each kind of socket.
func TestConnection(t *testing.T) {
	t.Parallel()
	for network, addr := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			if network == "tcp6" {
				fd, _, err := Listen(network, addr)
				if err != nil {
					t.Skip("this computer has no IPv6: ", err)
				}
				_ = unix.Close(fd)
			}
			l, bound := mustListen(t, network, addr)
			p := newPoller(t)
			first := mustDial(t, p, network, bound)
			second := first.Another(2)
			if second.State != Down || second.Close() != nil || second.Connect() != nil {
				t.Fatalf("%+v", second)
			}
			mustAccept(t, l)
			mustAccept(t, l)
			if err := establish(t, p, &second); err != nil || second.State != Up {
				t.Fatal(second.State, err)
			}
			if events, _ := mustWait(t, p, 0); len(events) != 0 {
				t.Fatalf("there is nothing to read and nobody wants to write: %+v", events)
			}
			for _, c := range []*Conn{&first, &second} {
				if err := c.Close(); err != nil || c.State != Down || c.FD != -1 {
					t.Fatalf("%v, %+v", err, c)
				}
				if err := c.Connect(); err != nil {
					t.Fatal(err)
				}
				peer := mustAccept(t, l)
				if err := establish(t, p, c); err != nil {
					t.Fatal(err)
				}
				if n, err := c.Recv(make([]byte, 8)); n != 0 || err != nil {
					t.Errorf("receiving nothing: %d, %v", n, err)
				}
				if n, err := c.Send([]byte("hello")); n != 5 || err != nil || c.Blocked {
					t.Errorf("sending: %d, %v, blocked %v", n, err, c.Blocked)
				}
				if err := unix.Shutdown(peer, unix.SHUT_RDWR); err != nil {
					t.Fatal(err)
				}
				mustWait(t, p, -1)
				if n, err := c.Recv(make([]byte, 8)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
					t.Errorf("receiving at the end: %d, %v", n, err)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestBlocked: what the kernel does not take is asked for by an event, and only that long.
func TestBlocked(t *testing.T) {
	t.Parallel()
	l, bound := mustListen(t, "unix", filepath.Join(t.TempDir(), "s"))
	p := newPoller(t)
	c := mustDial(t, p, "unix", bound)
	peer := mustAccept(t, l)
	rest := bytes.Repeat([]byte("x"), 8<<20)
	buf := make([]byte, 1<<20)
	for sent, rounds := 0, 0; len(rest) > 0; rounds++ {
		n, err := c.Send(rest)
		if rest = rest[n:]; err != nil || c.Blocked != (len(rest) > 0) {
			t.Fatalf("%d left, %v, blocked %v", len(rest), err, c.Blocked)
		}
		if sent += n; c.Blocked {
			if n, err := c.Send(rest); n != 0 || err != nil || !c.Blocked {
				t.Fatalf("sending to a full socket: %d, %v, blocked %v", n, err, c.Blocked)
			}
			if events, _ := mustWait(t, p, 0); len(events) != 0 {
				t.Fatalf("it is full, yet reported: %+v", events)
			}
		}
		for sent > 0 {
			n, err := Recv(peer, buf)
			if err != nil {
				t.Fatal(err)
			}
			sent -= n
		}
		events, _ := mustWait(t, p, 0)
		if writable := len(events) == 1 && events[0].Writable; writable != c.Blocked {
			t.Fatalf("blocked %v after round %d, yet %+v", c.Blocked, rounds, events)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	p := newPoller(t)
	if _, err := p.Dial(t.Context(), "unix", filepath.Join(t.TempDir(), "nobody"), time.Second, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("dialling nothing: %v", err)
	}
	l, bound := mustListen(t, "tcp", "127.0.0.1:0")
	c := mustDial(t, p, "tcp", bound)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Dial(cancelled, "tcp", bound, time.Second, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("dialling after the end of its time: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(l, unix.SHUT_RDWR); err != nil { // its port stays taken, and refuses
		t.Fatal(err)
	}
	err := c.Connect()
	if err == nil {
		err = establish(t, p, &c)
	}
	if !errors.Is(err, unix.ECONNREFUSED) || c.State == Up {
		t.Errorf("connecting to nobody: %v, state %d", err, c.State)
	}
	if err := c.Close(); err != nil || c.State != Down {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for i := range 20 {
		last = Backoff(last)
		if want := min(time.Millisecond<<i, time.Second); last != want {
			t.Fatalf("refused %d times: %v, want %v", i+1, last, want)
		}
	}
}

// TestLimitsOfThisComputer are not the server's fault, and the error says what to do.
func TestLimitsOfThisComputer(t *testing.T) {
	t.Parallel()
	for err, says := range map[error]string{unix.EMFILE: "ulimit", unix.ENFILE: "ulimit", unix.EADDRNOTAVAIL: "ip_local_port_range"} {
		got := explainLimit(fmt.Errorf("dial: %w", err))
		if !errors.Is(got, err) || !strings.Contains(got.Error(), says) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := explainLimit(unix.ECONNREFUSED); got != unix.ECONNREFUSED {
		t.Error(got)
	}
}
