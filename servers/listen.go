//go:build linux

package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/internal/poll"
)

// listener is one listening socket.
type listener struct {
	fd   int // -1 when closed
	name string
	path string // of a unix socket
}

// acceptPause is how long a loop leaves its listeners alone after the process has run out of descriptors.
const acceptPause = 10 * time.Millisecond

// acceptBatch bounds the connections taken in one turn, so that a storm of them does not keep the loop from serving.
const acceptBatch = 64

// splitAddr turns an address as Config.Listen has it into what package net understands.
func splitAddr(addr string) (network, name string, err error) {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		if path == "" {
			return "", "", errors.New("no path; write unix:///path")
		}
		return "unix", path, nil
	}
	host := strings.TrimPrefix(addr, "tcp://")
	if _, _, err := net.SplitHostPort(host); err != nil {
		return "", "", errors.New("write host:port or unix:///path")
	}
	return "tcp", host, nil
}

func open(addr string, mode fs.FileMode) (listener, error) {
	network, name, err := splitAddr(addr)
	if err != nil {
		return listener{}, err
	}
	if network == "unix" {
		if err := removeStale(name); err != nil {
			return listener{}, err
		}
		fd, _, err := poll.Listen("unix", name)
		if err != nil {
			return listener{}, err
		}
		l := listener{fd: fd, name: addr, path: name}
		if err := os.Chmod(name, mode); err != nil {
			l.close()
			return listener{}, err
		}
		return l, nil
	}
	fd, bound, err := poll.Listen("tcp", name)
	if errors.Is(err, unix.EADDRINUSE) {
		return listener{}, fmt.Errorf("%w; stop what uses it, or choose another port (port 0 takes any free one)", err)
	}
	if err != nil {
		return listener{}, err
	}
	for _, o := range keepAlive {
		_ = unix.SetsockoptInt(fd, o.level, o.name, o.value) // a kernel without one of them notices later, which is no reason not to serve
	}
	if tcp, ok := bound.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		// Between processes of one computer nothing is lost and no link is shared. A congestion control that paces what is sent, as bbr
		// does, only makes large replies wait for its timers (docs/method.md has figures). Where this cannot be set, they wait.
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	}
	return listener{fd: fd, name: bound.String()}, nil
}

// keepAlive has the kernel find out within some two minutes that the computer of a client is gone without a word: what the client holds, credits
// among it, is to go to others. Accepted sockets have the options of their listener.
var keepAlive = []struct{ level, name, value int }{
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 10},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 6},
}

// removeStale removes the file of a unix socket that nobody listens on any more. Any other file stays, and listening fails.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file of that name that is not a socket")
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = conn.Close()
		return errors.New("another server listens there; stop it, or choose another path")
	}
	return os.Remove(path)
}

func (l *listener) close() {
	if l.fd < 0 {
		return
	}
	_ = unix.Close(l.fd)
	l.fd = -1
	if l.path != "" {
		_ = os.Remove(l.path)
	}
}

// backlog returns how many connections the kernel lets wait to be accepted, which is what package net asks for.
func backlog() int {
	b, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		return unix.SOMAXCONN
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return unix.SOMAXCONN
	}
	return n
}

// watchListeners makes loop 0 accept connections, or stop to.
func (l *loop) watchListeners(on bool) error {
	for i := range l.server.listen {
		ls := &l.server.listen[i]
		if ls.fd < 0 {
			continue
		}
		if !on {
			_ = l.poll.Remove(ls.fd)
		} else if err := l.poll.Add(ls.fd, listenToken|uint64(i), false); err != nil {
			return err
		}
	}
	return nil
}

// accept takes in the connections that wait at one listener and deals them out to the loops.
func (l *loop) accept(now clock.Instant, fd int) {
	s := l.server
	for range acceptBatch {
		conn, err := poll.Accept(fd)
		if err != nil {
			if err != unix.EAGAIN { // most likely there are too many open files
				_ = l.watchListeners(false)
				l.acceptAt = now.Add(acceptPause)
				s.accepting.Store(false)
				s.disabled.Add(1)
				s.say(sayTrouble, "no connection can be accepted: %v", err)
			}
			return
		}
		if s.conns.Add(1) > int64(s.config.MaxConns) {
			s.conns.Add(-1)
			s.turned.Add(1)
			s.say(sayTrouble, "a connection is turned away: there are %d", s.config.MaxConns)
			_, _ = poll.Send(conn, []byte("ERROR Too many open connections\r\n"))
			_ = unix.Close(conn)
			continue
		}
		to := s.loops[s.total.Add(1)%uint64(len(s.loops))]
		if to == l {
			l.adopt(now, conn)
		} else {
			s.dispatch.hand(to, conn)
		}
	}
}
