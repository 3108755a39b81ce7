//go:build linux

package poll

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RawBytes is the largest transfer made without telling the scheduler, at the lowest cost: beyond it the copying takes longer than the
// bookkeeping, and a stop of the world should not have to wait for it.
const RawBytes = 64 << 10

// Send writes to a non-blocking socket, perhaps only a part of b. It returns unix.EAGAIN when nothing can be written now.
func Send(fd int, b []byte) (int, error) {
	raceWillRead(b)
	return transfer(unix.SYS_SENDTO, fd, b, unix.MSG_NOSIGNAL)
}

// Recv reads from a non-blocking socket. Like unix.Read it returns 0 and no error at the end of the stream, and unix.EAGAIN when there is
// nothing to read.
func Recv(fd int, b []byte) (int, error) {
	n, err := transfer(unix.SYS_RECVFROM, fd, b, 0)
	raceDidWrite(b[:n])
	return n, err
}

// transfer moves up to len(b) bytes with a system call that takes them as read, write, recv and send do.
func transfer(trap uintptr, fd int, b []byte, flags uintptr) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return call(trap, fd, unsafe.Pointer(&b[0]), len(b), flags, len(b))
}

// call makes a system call that moves up to size bytes, and makes it again as long as signals interrupt it. p points to count bytes, or to as
// many pieces as that.
func call(trap uintptr, fd int, p unsafe.Pointer, count int, flags uintptr, size int) (int, error) {
	for {
		var n uintptr
		var errno unix.Errno
		if size <= RawBytes {
			n, _, errno = unix.RawSyscall6(trap, uintptr(fd), uintptr(p), uintptr(count), flags, 0, 0)
		} else {
			n, _, errno = unix.Syscall6(trap, uintptr(fd), uintptr(p), uintptr(count), flags, 0, 0)
		}
		switch errno {
		case 0:
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

// Writev is Send for a list of pieces. It may take only some of them, and only a part of the last.
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
	return call(unix.SYS_WRITEV, fd, unsafe.Pointer(&vector[0]), n, 0, total)
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

// Accept takes one connection from a listening descriptor. It returns a non-blocking descriptor that is closed on exec and sends without
// delay, or unix.EAGAIN if nobody waits.
func Accept(listener int) (fd int, err error) {
	for {
		fd, from, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return -1, err
		}
		if err := sendAtOnce(fd, from); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
}

// sendAtOnce has TCP send without delay. peer tells whether it is TCP.
func sendAtOnce(fd int, peer unix.Sockaddr) error {
	if _, local := peer.(*unix.SockaddrUnix); local {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("poll: setting TCP_NODELAY: %w", err)
	}
	return nil
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
