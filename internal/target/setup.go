//go:build linux

package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ParseAddr takes the address of one memcached server apart: memcached://host:port, memcached://[::1]:port or memcached:///path.sock.
// The results are what package net takes.
func ParseAddr(addr string) (network, address string, err error) {
	u, err := url.Parse(addr)
	if err != nil || u.Scheme != "memcached" || u.RawQuery != "" || u.User != nil {
		return "", "", fmt.Errorf("target %q: write memcached://host:port or memcached:///path.sock", addr)
	}
	if u.Host == "" {
		if len(u.Path) < 2 {
			return "", "", fmt.Errorf("target %q: has neither a host and port nor the path of a socket", addr)
		}
		return "unix", u.Path, nil
	}
	if u.Port() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return "", "", fmt.Errorf("target %q: write memcached://host:port, such as memcached://127.0.0.1:11211", addr)
	}
	return "tcp", u.Host, nil
}

const (
	// setupTimeout bounds one exchange of the set-up when ctx does not.
	setupTimeout = 10 * time.Second
	// maxStats bounds the lines that Stats reads.
	maxStats = 10_000
	// quoted bounds how much of an unexpected answer an error shows.
	quoted = 60
)

// setup is a plain connection for what happens before and after the load.
type setup struct {
	addr  string
	conn  net.Conn
	in    *bufio.Reader
	out   *bufio.Writer
	stop  func() bool // of watching ctx
	known bool        // it has proved to be a memcached server
}

// open connects to addr for a conversation that ends with ctx.
func open(ctx context.Context, addr string) (*setup, error) {
	network, address, err := ParseAddr(addr)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: setupTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	s := &setup{addr: addr, conn: conn, in: bufio.NewReaderSize(conn, readBytes), out: bufio.NewWriterSize(conn, readBytes)}
	s.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return s, nil
}

func (s *setup) close() {
	s.stop()
	_ = s.conn.Close()
}

// patience gives the server until d from now for the exchange that follows, unless ctx has ended.
func (s *setup) patience(ctx context.Context, d time.Duration) error {
	if err := s.conn.SetDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	return ctx.Err() // asked last: if ctx ends now, its deadline comes after ours
}

// explain says what an error of the conversation means to whoever started it.
func (s *setup) explain(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", s.addr, context.Cause(ctx))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		if s.known {
			return fmt.Errorf("%s closed the connection: it ended, or limits its connections", s.addr)
		}
		return fmt.Errorf("%s closed the connection without an answer: not a memcached server?", s.addr)
	case errors.As(err, &timeout) && timeout.Timeout():
		if s.known {
			return fmt.Errorf("%s has stopped answering", s.addr)
		}
		return fmt.Errorf("%s accepted the connection but does not answer: not a memcached server, or stopped", s.addr)
	}
	return fmt.Errorf("%s: %w", s.addr, err)
}

// line reads one line without its end. It is valid until the next read.
func (s *setup) line() ([]byte, error) {
	line, err := s.in.ReadSlice('\n')
	if err != nil && len(line) > 0 { // it said something, but no line of this protocol
		return nil, notMemcached(line)
	}
	return bytes.TrimRight(line, "\r\n"), err
}

func notMemcached(answer []byte) error {
	but := ""
	if what := other(answer); what != "" {
		but = " but " + what
	}
	return fmt.Errorf("answered %q: not a memcached server%s", answer[:min(len(answer), quoted)], but)
}

// Probe returns the version of the memcached server at addr, of the first where there are several; all must be ones. Its error names what
// answered instead.
func Probe(ctx context.Context, addr string) (version string, err error) {
	for i, one := range split(addr) {
		v, err := probe(ctx, one)
		if err != nil {
			return "", err
		}
		if i == 0 {
			version = v
		}
	}
	return version, nil
}

func probe(ctx context.Context, addr string) (version string, err error) {
	s, err := open(ctx, addr)
	if err != nil {
		return "", err
	}
	defer s.close()
	version, err = s.probe(ctx)
	return version, s.explain(ctx, err)
}

func (s *setup) probe(ctx context.Context) (string, error) {
	if err := s.patience(ctx, setupTimeout); err != nil {
		return "", err
	}
	if _, err := io.WriteString(s.conn, "version\r\n"); err != nil {
		return "", err
	}
	line, err := s.line()
	if err != nil {
		return "", err
	}
	version, found := bytes.CutPrefix(line, []byte("VERSION "))
	if !found {
		return "", notMemcached(line)
	}
	s.known = true
	return string(version), nil
}

// Stats returns the server's statistics by name: those of `stats` when sub is empty, of `stats SUB` otherwise. Counts of several servers
// are added up.
func Stats(ctx context.Context, addr, sub string) (map[string]string, error) {
	var all map[string]string
	for _, one := range split(addr) {
		of, err := stats(ctx, one, sub)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = of
		} else {
			sum(all, of)
		}
	}
	return all, nil
}

func stats(ctx context.Context, addr, sub string) (map[string]string, error) {
	s, err := open(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer s.close()
	all, err := s.stats(ctx, sub)
	return all, s.explain(ctx, err)
}

func (s *setup) stats(ctx context.Context, sub string) (map[string]string, error) {
	if _, err := s.probe(ctx); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(s.conn, strings.TrimSpace("stats "+sub)+"\r\n"); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for range maxStats {
		line, err := s.line()
		if err != nil {
			return nil, err
		}
		if string(line) == "END" || string(line) == "RESET" {
			return all, nil
		}
		rest, found := bytes.CutPrefix(line, []byte("STAT "))
		name, value, _ := bytes.Cut(rest, []byte(" "))
		if !found {
			return nil, fmt.Errorf("answered %q to stats %s", line[:min(len(line), quoted)], sub)
		}
		all[string(name)] = string(value)
	}
	return nil, fmt.Errorf("has more than %d statistics", maxStats)
}
