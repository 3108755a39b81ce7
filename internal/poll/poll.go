//go:build linux

// Package poll is a thin epoll: which sockets can be read or written, and a way to be woken from another goroutine.
//
// Go's own network poller is not used on the measured path because a scheduler that is kept busy looks at the network only every
// 10 ms. Requests would then queue in sockets, where no controller sees them, and replies would be read late by the generator.
// Whoever owns a Poller polls exactly when it wants to.
//
// Polling is level-triggered: what has not been read is reported again.
package poll

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tokens from reservedTokens on belong to the Poller itself.
const (
	reservedTokens = ^uint64(0) - 1
	timerToken     = reservedTokens
	wakeToken      = reservedTokens + 1
)

// maxEvents bounds the events of one Wait; the rest is reported by the next one.
const maxEvents = 256

// ErrClosed is returned by the methods of a Poller that has been closed.
var ErrClosed = errors.New("poll: poller is closed")

// Event says what one descriptor is ready for.
type Event struct {
	Token    uint64 // as given to Add or Modify
	Readable bool   // Read will not block: data, end of stream, an error or a connection to accept
	Writable bool   // Write will not block; reported only if asked for
	Hangup   bool   // the peer is gone or the socket is in error; Readable is set too
}

// Poller watches descriptors. Wake may be called from any goroutine; all other methods belong to one goroutine at a time.
type Poller struct {
	epoll  int
	timer  int // -1 where the kernel has epoll_pwait2
	events [maxEvents]unix.EpollEvent

	pending atomic.Bool // a wake-up has been written and not yet been seen
	wake    struct {    // guards fd against a Wake that comes after Close
		sync.Mutex
		fd int // -1 when closed
	}
}

// New returns a Poller that watches nothing.
func New() (*Poller, error) {
	p := &Poller{epoll: -1, timer: -1}
	p.wake.fd = -1
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("poll: epoll_create1: %w", err)
	}
	if p.wake.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("poll: eventfd: %w", err)
	}
	if err = p.control(unix.EPOLL_CTL_ADD, p.wake.fd, wakeToken, unix.EPOLLIN); err != nil {
		_ = p.Close()
		return nil, err
	}
	if !hasWait2(p.epoll) {
		if err = p.addTimer(); err != nil {
			_ = p.Close()
			return nil, err
		}
	}
	return p, nil
}

// Add starts to watch fd for reading, and for writing too if write is set. Two tokens, the largest ones, are reserved.
func (p *Poller) Add(fd int, token uint64, write bool) error {
	if token >= reservedTokens {
		return fmt.Errorf("poll: token %#x is reserved", token)
	}
	return p.control(unix.EPOLL_CTL_ADD, fd, token, interest(write))
}

// Modify changes the token and the interest of a watched descriptor.
func (p *Poller) Modify(fd int, token uint64, write bool) error {
	if token >= reservedTokens {
		return fmt.Errorf("poll: token %#x is reserved", token)
	}
	return p.control(unix.EPOLL_CTL_MOD, fd, token, interest(write))
}

// Pause stops reporting that fd is readable, for a connection whose owner will not read for now; write is as in Modify. A hang-up
// is still reported. Modify ends the pause.
func (p *Poller) Pause(fd int, token uint64, write bool) error {
	if token >= reservedTokens {
		return fmt.Errorf("poll: token %#x is reserved", token)
	}
	var events uint32
	if write {
		events = unix.EPOLLOUT
	}
	return p.control(unix.EPOLL_CTL_MOD, fd, token, events)
}

// Remove stops watching fd. It must be called before fd is closed.
func (p *Poller) Remove(fd int) error { return p.control(unix.EPOLL_CTL_DEL, fd, 0, 0) }

// Wait fills dst with what is ready and returns how many events there are. A negative timeout waits forever, zero looks once and
// never blocks, and a positive one is kept to within the kernel's timer slack (50 µs by default) and never rounded to
// milliseconds. woken says that Wake has been called since the last Wait that said so. Signals do not end a Wait.
func (p *Poller) Wait(dst []Event, timeout time.Duration) (n int, woken bool, err error) {
	if p.epoll < 0 {
		return 0, false, ErrClosed
	}
	ready, err := p.wait(min(len(dst), maxEvents-2)+2, timeout) // room for the two descriptors of our own
	if err != nil {
		return 0, false, fmt.Errorf("poll: epoll_wait: %w", err)
	}
	for i := range p.events[:ready] {
		e := &p.events[i]
		token := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
		switch {
		case token == wakeToken:
			p.drainWake()
			woken = true
		case token == timerToken:
			p.drainTimer()
		case n < len(dst):
			hangup := e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
			dst[n] = Event{
				Token:    token,
				Readable: hangup || e.Events&unix.EPOLLIN != 0,
				Writable: e.Events&unix.EPOLLOUT != 0,
				Hangup:   hangup,
			}
			n++
		}
	}
	return n, woken, nil
}

// Wake makes a Wait that is going on, or else the next one, return with woken set. Many calls may end in one wake-up.
func (p *Poller) Wake() error {
	// Whoever finds the flag set may go: the owner will look at whatever was handed over before this call.
	if p.pending.Swap(true) {
		return nil
	}
	p.wake.Lock()
	defer p.wake.Unlock()
	if p.wake.fd < 0 {
		return ErrClosed
	}
	one := [8]byte{1} // any value but 0 will do, so the byte order does not matter
	_, err := transfer(unix.SYS_WRITE, p.wake.fd, one[:], 0)
	if err != nil && !errors.Is(err, unix.EAGAIN) { // EAGAIN: the counter is full, so a wake-up is due anyway
		return fmt.Errorf("poll: waking: %w", err)
	}
	return nil
}

// Close stops watching everything and frees the Poller's own descriptors. Descriptors that were added stay open.
func (p *Poller) Close() error {
	p.wake.Lock()
	defer p.wake.Unlock()
	var errs []error
	for _, fd := range []*int{&p.epoll, &p.timer, &p.wake.fd} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
		}
		*fd = -1
	}
	return errors.Join(errs...)
}

func interest(write bool) uint32 {
	if write {
		return unix.EPOLLIN | unix.EPOLLOUT
	}
	return unix.EPOLLIN
}

func (p *Poller) control(op, fd int, token uint64, events uint32) error {
	if p.epoll < 0 {
		return ErrClosed
	}
	e := unix.EpollEvent{Events: events, Fd: int32(uint32(token)), Pad: int32(uint32(token >> 32))}
	if err := unix.EpollCtl(p.epoll, op, fd, &e); err != nil {
		return fmt.Errorf("poll: epoll_ctl of descriptor %d: %w", fd, err)
	}
	return nil
}

func (p *Poller) drainWake() {
	var count [8]byte
	_, _ = transfer(unix.SYS_READ, p.wake.fd, count[:], 0)
	// The flag goes down last. Were it first, a Wake in between would raise it again and have its count drained here, and every
	// later Wake would then trust a wake-up that is no longer written. A Wake that still finds the flag up is served as well: this
	// Wait has yet to return.
	p.pending.Store(false)
}

// wait calls epoll_wait in the form that suits the timeout and goes on after signals.
func (p *Poller) wait(room int, timeout time.Duration) (int, error) {
	if timeout == 0 {
		for {
			// A raw system call does not tell the scheduler, which costs more than the call itself and may give the P away.
			n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])),
				uintptr(room), 0, 0, 0)
			if errno == 0 {
				return int(n), nil
			} else if errno != unix.EINTR {
				return 0, errno
			}
		}
	}
	if timeout < 0 {
		for {
			n, err := unix.EpollWait(p.epoll, p.events[:room], -1)
			if err != unix.EINTR {
				return n, err
			}
		}
	}
	end := time.Now().Add(timeout)
	for {
		n, err := p.waitFor(room, timeout)
		if err != unix.EINTR {
			return n, err
		}
		if timeout = time.Until(end); timeout <= 0 {
			return 0, nil
		}
	}
}
