//go:build linux

package poll

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawBytes is the largest transfer made without telling the scheduler: beyond it the copying takes longer than the bookkeeping,
// and a stop of the world should not have to wait for it.
const rawBytes = 64 << 10

// Read reads from a non-blocking descriptor. Like unix.Read it returns 0 and no error at the end of the stream, and unix.EAGAIN
// when there is nothing to read.
func Read(fd int, b []byte) (int, error) { return transfer(unix.SYS_READ, fd, b) }

// Write writes to a non-blocking descriptor, perhaps only a part of b. It returns unix.EAGAIN when nothing can be written now.
func Write(fd int, b []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, b) }

// Send is Write for a socket, which costs a little less.
func Send(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	raceWillRead(b)
	for {
		var n uintptr
		var errno unix.Errno
		if len(b) <= rawBytes {
			n, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		} else {
			n, _, errno = unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		}
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN
		default:
			return 0, errno
		}
	}
}

// Recv is Read for a socket, which costs a little less.
func Recv(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		var n uintptr
		var errno unix.Errno
		if len(b) <= rawBytes {
			n, _, errno = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		} else {
			n, _, errno = unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		}
		switch errno {
		case 0:
			raceDidWrite(b[:n])
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN
		default:
			return 0, errno
		}
	}
}

func transfer(trap uintptr, fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if trap == unix.SYS_WRITE {
		raceWillRead(b)
	}
	for {
		var n uintptr
		var errno unix.Errno
		if len(b) <= rawBytes {
			n, _, errno = unix.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		} else {
			n, _, errno = unix.Syscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		}
		switch errno {
		case 0:
			if trap == unix.SYS_READ {
				raceDidWrite(b[:n])
			}
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN // a constant: returning errno itself would allocate
		default:
			return 0, errno
		}
	}
}

// maxVector bounds the pieces that one Writev takes.
const maxVector = 32

// Writev is Write for a list of pieces. It may take only some of them, and only a part of the last.
func Writev(fd int, pieces [][]byte) (int, error) {
	var vector [maxVector]unix.Iovec
	n, total := 0, 0
	for _, b := range pieces {
		if n == maxVector {
			break
		}
		if len(b) == 0 {
			continue
		}
		raceWillRead(b)
		vector[n].Base = &b[0]
		vector[n].SetLen(len(b))
		total += len(b)
		n++
	}
	if n == 0 {
		return 0, nil
	}
	for {
		var sent uintptr
		var errno unix.Errno
		if total <= rawBytes {
			sent, _, errno = unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vector[0])), uintptr(n))
		} else {
			sent, _, errno = unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vector[0])), uintptr(n))
		}
		switch errno {
		case 0:
			return int(sent), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN
		default:
			return 0, errno
		}
	}
}

// Dial connects to addr ("tcp" with host:port, "unix" with a path) and returns a non-blocking descriptor that is closed on exec and
// sends without delay. The caller closes it with unix.Close. Errors are those of package net. A timeout of 0 is none.
func Dial(network, addr string, timeout time.Duration) (fd int, err error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return -1, err
	}
	return detach(conn)
}

// Listen opens a listening socket and returns its non-blocking descriptor and the address it got, which tells the port when addr
// asks for port 0. Connections are taken with Accept. Errors are those of package net. The file of a "unix" socket stays when the
// descriptor is closed; whoever listens removes it.
func Listen(network, addr string) (fd int, bound net.Addr, err error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return -1, nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	bound = l.Addr()
	fd, err = detach(l)
	return fd, bound, err
}

// Accept takes one connection from a listening descriptor. It returns a descriptor as Dial does, or unix.EAGAIN if nobody waits.
func Accept(listener int) (fd int, err error) {
	for {
		fd, from, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return -1, err
		}
		if _, local := from.(*unix.SockaddrUnix); !local {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
				_ = unix.Close(fd)
				return -1, fmt.Errorf("poll: setting TCP_NODELAY: %w", err)
			}
		}
		return fd, nil
	}
}

// detach takes a socket away from package net and its poller. Package net has made it non-blocking and, for TCP, set TCP_NODELAY;
// both belong to the socket, so they survive the copy of the descriptor.
func detach(c io.Closer) (fd int, err error) {
	defer func() {
		if err = errors.Join(err, c.Close()); err != nil && fd >= 0 {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	var dupErr error
	err = raw.Control(func(old uintptr) { fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dupErr); err != nil {
		return fd, fmt.Errorf("poll: copying a descriptor: %w", err)
	}
	return fd, nil
}
