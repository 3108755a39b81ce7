//go:build linux

package poll

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// bothTimeouts runs a test with epoll_pwait2, where the kernel has it, and with the timer that stands in for it.
func bothTimeouts(t *testing.T, test func(t *testing.T, p *Poller)) {
	t.Run("native", func(t *testing.T) { t.Parallel(); test(t, newPoller(t)) })
	t.Run("timerfd", func(t *testing.T) {
		t.Parallel()
		p := newPoller(t)
		if p.timer < 0 {
			if err := p.addTimer(); err != nil {
				t.Fatal(err)
			}
		}
		test(t, p)
	})
}

func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]); _ = unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func mustWait(t *testing.T, p *Poller, timeout time.Duration) (events []Event, woken bool) {
	t.Helper()
	events = make([]Event, 8)
	n, woken, err := p.Wait(events, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return events[:n], woken
}

func TestReadinessFollowsTheSocket(t *testing.T) {
	t.Parallel()
	bothTimeouts(t, func(t *testing.T, p *Poller) {
		a, b := pair(t)
		const token = 0x0123456789abcdef // wider than 32 bits: both halves must come back
		if err := p.Add(a, token, false); err != nil {
			t.Fatal(err)
		}
		if events, _ := mustWait(t, p, 0); len(events) != 0 {
			t.Fatalf("nothing was sent, yet Wait reports %v", events)
		}
		if n, err := Send(b, []byte("hello")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		for _, timeout := range []time.Duration{0, -1, time.Hour} { // level-triggered: reported until it has been read
			events, woken := mustWait(t, p, timeout)
			if len(events) != 1 || events[0] != (Event{Token: token, Readable: true}) || woken {
				t.Fatalf("timeout %v: got %+v, woken %v", timeout, events, woken)
			}
		}
		buf := make([]byte, 16)
		if n, err := Recv(a, buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("read %q, %v", buf[:n], err)
		}
		if n, err := Recv(a, buf); n != 0 || err != unix.EAGAIN {
			t.Fatalf("an empty socket gives %d, %v, want 0 and EAGAIN", n, err)
		}
		if err := p.Modify(a, 7, true); err != nil {
			t.Fatal(err)
		}
		if events, _ := mustWait(t, p, -1); len(events) != 1 || events[0] != (Event{Token: 7, Writable: true}) {
			t.Fatalf("got %+v", events)
		}
		if err := p.Remove(a); err != nil {
			t.Fatal(err)
		}
		if events, _ := mustWait(t, p, 0); len(events) != 0 {
			t.Fatalf("removed, yet reported: %+v", events)
		}
	})
}

func TestHangup(t *testing.T) {
	t.Parallel()
	p := newPoller(t)
	a, b := pair(t)
	if err := p.Add(a, 1, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(a, 1, false); err != nil {
		t.Fatal(err)
	}
	if _, err := Send(b, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if events, _ := mustWait(t, p, 0); len(events) != 0 {
		t.Fatalf("paused, yet reported: %+v", events)
	}
	if err := unix.Shutdown(b, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	if events, _ := mustWait(t, p, -1); len(events) != 1 || !events[0].Hangup || !events[0].Readable {
		t.Fatalf("a hang-up must be reported even when paused: %+v", events)
	}
}

func TestTimeoutIsKept(t *testing.T) {
	t.Parallel()
	bothTimeouts(t, func(t *testing.T, p *Poller) {
		for range 20 {
			const timeout = 300 * time.Microsecond
			began := time.Now()
			events, woken := mustWait(t, p, timeout)
			if took := time.Since(began); took < timeout || len(events) != 0 || woken {
				t.Fatalf("after %v: %v, woken %v", took, events, woken)
			}
		}
		a, b := pair(t) // a timer that was cut short must not end the next Wait
		if err := p.Add(a, 1, false); err != nil {
			t.Fatal(err)
		}
		if _, err := Send(b, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if events, _ := mustWait(t, p, 2*time.Millisecond); len(events) != 1 {
			t.Fatal("no event")
		}
		if err := p.Remove(a); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, _ = mustWait(t, p, 6*time.Millisecond); time.Since(began) < 6*time.Millisecond {
			t.Fatal("ended by the timer of an earlier Wait")
		}
	})
}

func TestWakeIsNeverLost(t *testing.T) {
	t.Parallel()
	bothTimeouts(t, func(t *testing.T, p *Poller) {
		// Each goroutine hands over numbers and wakes; the owner sleeps for ever unless woken. A lost wake-up hangs the test.
		const senders, each = 4, 500
		var mail struct {
			sync.Mutex
			n int
		}
		for range senders {
			go func() {
				for range each {
					mail.Lock()
					mail.n++
					mail.Unlock()
					if err := p.Wake(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		for seen := 0; seen < senders*each; {
			if _, woken := mustWait(t, p, -1); !woken {
				t.Fatal("Wait returned without events and without having been woken")
			}
			mail.Lock()
			seen = mail.n
			mail.Unlock()
		}
		if err := p.Wake(); err != nil { // may be one more than needed
			t.Fatal(err)
		}
		if _, woken := mustWait(t, p, 0); !woken {
			t.Fatal("not woken")
		}
		if _, woken := mustWait(t, p, 0); woken {
			t.Fatal("woken twice by one Wake")
		}
	})
}

func TestMoreEventsThanRoom(t *testing.T) {
	t.Parallel()
	p := newPoller(t)
	const sockets = 5
	for i := range sockets {
		a, b := pair(t)
		if err := p.Add(a, uint64(i), false); err != nil {
			t.Fatal(err)
		}
		if _, err := Send(b, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Wake(); err != nil {
		t.Fatal(err)
	}
	seen, wasWoken := map[uint64]bool{}, false
	for range 20 {
		dst := make([]Event, 2)
		n, woken, err := p.Wait(dst, 0)
		if err != nil || n > len(dst) {
			t.Fatal(n, err)
		}
		wasWoken = wasWoken || woken
		for _, e := range dst[:n] {
			seen[e.Token] = true
		}
	}
	if len(seen) != sockets || !wasWoken {
		t.Fatalf("after many rounds only %v were seen, woken %v", seen, wasWoken)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(0, wakeToken, false); err == nil {
		t.Error("a reserved token was accepted")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := p.Wake(); !errors.Is(err, ErrClosed) {
		t.Errorf("Wake: %v", err)
	}
	if _, _, err := p.Wait(make([]Event, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	if err := p.Add(0, 1, false); !errors.Is(err, ErrClosed) {
		t.Errorf("Add: %v", err)
	}
}

func TestDialListenAccept(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		addr := "127.0.0.1:0"
		if network == "unix" {
			addr = filepath.Join(t.TempDir(), "s")
		}
		l, bound, err := Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Accept(l); err != unix.EAGAIN {
			t.Fatalf("nobody dialled, yet Accept says %v", err)
		}
		conn, err := newPoller(t).Dial(t.Context(), network, bound.String(), 5*time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		c := conn.FD
		s, err := Accept(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range []int{l, c, s} {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if err != nil || flags&unix.O_NONBLOCK == 0 {
				t.Errorf("%s: blocking descriptor (%#x, %v)", network, flags, err)
			}
			flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: survives exec (%#x, %v)", network, flags, err)
			}
			if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); network == "tcp" && fd != l && (err != nil || v == 0) {
				t.Errorf("TCP_NODELAY is %d, %v", v, err)
			}
		}
		for _, fd := range []int{l, c, s} {
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
	}
	if fd, _, err := Listen("tcp", "127.0.0.1:notaport"); err == nil || fd >= 0 {
		t.Errorf("listening on nonsense: %d, %v", fd, err)
	}
}

func TestWritev(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	pieces := [][]byte{[]byte("VA 3\r\n"), nil, []byte("xyz"), []byte("\r\n")}
	if n, err := Writev(a, pieces); n != 11 || err != nil {
		t.Fatal(n, err)
	}
	buf := make([]byte, 64)
	if n, err := Recv(b, buf); err != nil || string(buf[:n]) != "VA 3\r\nxyz\r\n" {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
	if n, err := Writev(a, [][]byte{nil, {}}); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	many := make([][]byte, 3*maxVector)
	for i := range many {
		many[i] = []byte{byte(i)}
	}
	if n, err := Writev(a, many); n != maxVector || err != nil {
		t.Fatal(n, err)
	}
	big := [][]byte{make([]byte, 1<<20), make([]byte, 64<<20)}
	n, err := Writev(a, big)
	if n <= 0 || n >= 65<<20 || err != nil {
		t.Fatal("a full socket takes a part:", n, err)
	}
	for err == nil {
		_, err = Writev(a, big)
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes buffers escape")
	}
	p := newPoller(t)
	a, b := pair(t)
	if err := p.Add(a, 1, false); err != nil {
		t.Fatal(err)
	}
	events, buf := make([]Event, 4), []byte("0123456789")
	pieces := [][]byte{buf[:4], buf[4:]}
	conn := Conn{Token: 2, FD: b, State: Up, poller: p}
	allocs := testing.AllocsPerRun(200, func() {
		if n, err := Send(b, buf); n != len(buf) || err != nil {
			t.Fatal(n, err)
		}
		n, _, err := p.Wait(events, time.Second)
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		_, _ = Recv(a, buf)
		_, _ = Recv(a, buf) // EAGAIN
		_, _ = Writev(b, pieces)
		_, _ = Recv(a, buf)
		_, _ = conn.Send(buf)
		_, _ = Recv(a, buf)
		_, _ = conn.Recv(buf) // nothing
		_ = p.Wake()
		_, _, _ = p.Wait(events, 0)
	})
	if allocs != 0 {
		t.Errorf("%v allocations a round, want 0", allocs)
	}
}
