//go:build linux

package target

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spillway/internal/poll"
)

// greet has the server answer on every connection. One that is established may still be turned away, by a server that has as many as it
// wants: better to learn that now than from half of the load.
func (m *MemcachedTarget) greet(ctx context.Context) error {
	deadline := time.Now().Add(m.cfg.DialTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	hello := []byte("version\r\n")
	for i, c := range m.conns {
		if n, err := c.Send(hello); err != nil || n < len(hello) {
			return m.turnedAway(i, nil, err)
		}
	}
	for i, c := range m.conns {
		line, err := answer(ctx, &c.Conn, deadline)
		if err != nil || !bytes.HasPrefix(line, []byte("VERSION ")) {
			return m.turnedAway(i, line, err)
		}
	}
	return nil
}

// answer reads one line, and nothing after it: the server has not been asked anything else.
func answer(ctx context.Context, c *poll.Conn, deadline time.Time) ([]byte, error) {
	var line []byte
	buf := make([]byte, 512)
	for {
		n, err := c.Recv(buf)
		if err != nil {
			return line, err
		}
		if n > 0 {
			if line = append(line, buf[:n]...); line[len(line)-1] == '\n' {
				return bytes.TrimRight(line, "\r\n"), nil
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return line, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return line, context.DeadlineExceeded
		}
		// In short spans, so that Ctrl-C does not have to wait for a server that does not answer.
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(c.FD), Events: unix.POLLIN}}, int(min(left, 50*time.Millisecond).Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return line, err
		}
	}
}

func (m *MemcachedTarget) turnedAway(i int, line []byte, err error) error {
	what := "is not answered"
	if len(line) > 0 {
		what = fmt.Sprintf("is answered with %q", line[:min(len(line), quoted)])
	}
	if err != nil {
		what += fmt.Sprintf(" (%v)", err)
	}
	return fmt.Errorf("connection %d of %d %s: does the server allow that many connections (-c, --max-conns)? fewer are asked for with --conns "+
		"or workload.connections", i*m.cfg.Shards+m.cfg.Shard+1, m.cfg.Conns, what)
}
