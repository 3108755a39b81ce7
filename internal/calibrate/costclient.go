//go:build linux

package calibrate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	costConns    = 16
	costPatience = 10 * time.Second // for one reply
	stored       = "HD"
)

// costClient asks for one thing at a time on each of its connections.
type costClient struct {
	conns []net.Conn
	in    []*bufio.Reader
	out   []byte
}

func dialCosts(ctx context.Context, addr string) (*costClient, error) {
	c := &costClient{}
	var d net.Dialer
	for range costConns {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			c.close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		c.in = append(c.in, bufio.NewReader(conn))
	}
	return c, nil
}

func (c *costClient) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// round sends a request on each connection and waits for all replies. ask appends the one for a connection.
func (c *costClient) round(ctx context.Context, ask func(dst []byte) []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline := time.Now().Add(costPatience)
	for _, conn := range c.conns {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
		c.out = ask(c.out[:0])
		if _, err := conn.Write(c.out); err != nil {
			return err
		}
	}
	for _, in := range c.in {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if err := c.reply(in, string(line)); err != nil {
			return err
		}
	}
	return nil
}

// reply judges the first line of a reply, and reads the value that follows it, if one does.
func (c *costClient) reply(in *bufio.Reader, line string) error {
	switch words := strings.Fields(line); {
	case len(words) > 0 && (words[0] == stored || words[0] == "NF"):
	case len(words) > 1 && words[0] == "VA":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return fmt.Errorf("the server said %q", line)
		}
		_, err = io.CopyN(io.Discard, in, int64(n)+2)
		return err
	default:
		return fmt.Errorf("the server said %q", strings.TrimSpace(line))
	}
	return nil
}

// fill stores a value under each key.
func (c *costClient) fill(ctx context.Context, k *costKind, keys int, value []byte) error {
	for _, op := range k.ops {
		if !op.stores {
			continue
		}
		for i := 0; i < keys; {
			err := c.round(ctx, func(dst []byte) []byte {
				dst = op.request(dst, i%keys, value)
				i++
				return dst
			})
			if err != nil {
				return fmt.Errorf("storing values: %w", err)
			}
		}
	}
	return nil
}

// cost asks for some time and returns what each request took of a core, in seconds. at is where among the keys it begins, and then where it
// stopped.
func (c *costClient) cost(ctx context.Context, op *costOp, span time.Duration, keys int, at *int, value []byte) (each float64, n int, err error) {
	ask := func(dst []byte) []byte {
		dst = op.request(dst, *at%keys, value)
		*at++
		n++
		return dst
	}
	before, err := c.used()
	if err != nil {
		return 0, 0, err
	}
	for end := time.Now().Add(span); time.Now().Before(end); {
		if err := c.round(ctx, ask); err != nil {
			return 0, n, err
		}
	}
	after, err := c.used()
	if err != nil {
		return 0, n, err
	}
	if after <= before {
		return 0, n, fmt.Errorf("the server used no processor for %d requests", n)
	}
	return (after - before) / float64(n), n, nil
}

// used returns the seconds of processors that the server has had so far, by its own account.
func (c *costClient) used() (seconds float64, err error) {
	conn, in := c.conns[0], c.in[0]
	if err := conn.SetDeadline(time.Now().Add(costPatience)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, "stats\r\n"); err != nil {
		return 0, err
	}
	found := 0
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 3 && strings.HasPrefix(words[1], "rusage_"):
			v, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				return 0, fmt.Errorf("the server said %q", line)
			}
			seconds += v
			found++
		case len(words) == 1 && words[0] == "END" && found == 2:
			return seconds, nil
		case len(words) == 0 || words[0] != "STAT":
			return 0, fmt.Errorf("the server said %q, and nothing of its use of processors", strings.TrimSpace(line))
		}
	}
}
