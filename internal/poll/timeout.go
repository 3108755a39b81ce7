//go:build linux

package poll

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hasWait2 reports whether the kernel has epoll_pwait2 (Linux 5.11), which takes its timeout in nanoseconds.
func hasWait2(epoll int) bool {
	var events [1]unix.EpollEvent
	var zero unix.Timespec
	_, errno := wait2(epoll, events[:], &zero)
	return errno != unix.ENOSYS && errno != unix.EPERM // some sandboxes forbid what they do not know
}

func wait2(epoll int, events []unix.EpollEvent, timeout *unix.Timespec) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(timeout)), 0, 0)
	return int(n), errno
}

// waitFor waits up to timeout, which is positive.
func (p *Poller) waitFor(room int, timeout time.Duration) (int, error) {
	if p.timer < 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		n, errno := wait2(p.epoll, p.events[:room], &ts)
		if errno != 0 {
			return 0, errno
		}
		return n, nil
	}
	// epoll_wait counts in milliseconds. A timer in the set ends it sooner.
	setting := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(timeout))}
	if err := unix.TimerfdSettime(p.timer, 0, &setting, nil); err != nil {
		return 0, fmt.Errorf("timerfd_settime: %w", err)
	}
	n, err := unix.EpollWait(p.epoll, p.events[:room], -1)
	// A timer that were left running would end a later Wait too early.
	if stopErr := unix.TimerfdSettime(p.timer, 0, &unix.ItimerSpec{}, nil); err == nil && stopErr != nil {
		return 0, fmt.Errorf("timerfd_settime: %w", stopErr)
	}
	return n, err
}

func (p *Poller) addTimer() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("poll: timerfd_create: %w", err)
	}
	p.timer = fd
	return p.control(unix.EPOLL_CTL_ADD, fd, timerToken, unix.EPOLLIN)
}

func (p *Poller) drainTimer() {
	var count [8]byte
	_, _ = transfer(unix.SYS_READ, p.timer, count[:], 0)
}
