//go:build linux

package target

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const scheme = "memcached://"

// split takes a list of addresses apart: memcached://a:11211,b:11211 is memcached://a:11211 and memcached://b:11211.
func split(addr string) []string {
	rest, found := strings.CutPrefix(addr, scheme)
	if !found || strings.HasPrefix(rest, "/") { // a path may hold commas
		return []string{addr}
	}
	list := strings.Split(rest, ",")
	for i := range list {
		list[i] = scheme + list[i]
	}
	return list
}

// Resolve returns addr with every name replaced by the addresses that it stands for now, so that a run does not ask again and does not
// change its mind. Addresses of a name that refuse connections are left out as long as one accepts them: most machines have a name for an
// IPv6 address at which nothing listens. Addresses that lead to the same server are used once; that is found out with a short-lived key.
func Resolve(ctx context.Context, addr string) (string, error) {
	all, err := addresses(ctx, addr)
	if err != nil || len(all) == 1 {
		return strings.Join(all, ""), err
	}
	var servers []string
	var marks []string
	for _, a := range all {
		known := false
		for _, mark := range marks {
			if known, err = marked(ctx, a, mark); err != nil || known {
				break
			}
		}
		if err != nil {
			return "", err
		}
		if known {
			continue
		}
		mark := "spillway-server-" + rand.Text()
		if err := putMark(ctx, a, mark); err != nil {
			return "", err
		}
		marks, servers = append(marks, mark), append(servers, strings.TrimPrefix(a, scheme))
	}
	return scheme + strings.Join(servers, ","), nil
}

// servers returns the single addresses of the servers that connections go to: in their order where that matters.
func (c *Config) servers(ctx context.Context) (list []string, err error) {
	if !c.controlled() {
		return addresses(ctx, c.Addr)
	}
	for _, one := range split(c.Addr) {
		found, err := addresses(ctx, one)
		if err != nil {
			return nil, err
		}
		list = append(list, found[0]) // another name of the same server would make two of it
	}
	return list, nil
}

// addresses returns the single addresses of addr, with names replaced.
func addresses(ctx context.Context, addr string) ([]string, error) {
	var all []string
	for _, one := range split(addr) {
		network, address, err := ParseAddr(one)
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(address)
		if _, notIP := netip.ParseAddr(host); network == "unix" || err != nil || notIP == nil {
			all = append(all, one)
			continue
		}
		found, err := lookUp(ctx, host, port)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", one, err)
		}
		all = append(all, found...)
	}
	slices.Sort(all) // the same list gives the same connections
	return slices.Compact(all), nil
}

// lookUp returns the addresses of a name that accept connections.
func lookUp(ctx context.Context, host, port string) ([]string, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var accept []string
	var errs []error
	for _, ip := range ips {
		address := net.JoinHostPort(ip.Unmap().String(), port)
		c, err := (&net.Dialer{Timeout: setupTimeout}).DialContext(ctx, "tcp", address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_ = c.Close()
		accept = append(accept, scheme+address)
	}
	if len(accept) == 0 {
		return nil, errors.Join(errs...)
	}
	return accept, nil
}

// markSeconds is how long the key lives by which a server is recognised.
const markSeconds = 10

// putMark stores a key.
func putMark(ctx context.Context, addr, mark string) error {
	answer, err := ask(ctx, addr, fmt.Sprintf("set %s 0 %d 1\r\n1\r\n", mark, markSeconds))
	if err == nil && string(answer) != "STORED" {
		err = fmt.Errorf("%s: answered %q to a set", addr, answer)
	}
	return err
}

// marked reports whether a server has a key.
func marked(ctx context.Context, addr, mark string) (bool, error) {
	answer, err := ask(ctx, addr, "mg "+mark+"\r\n")
	return isReply(answer, "HD"), err
}

// ask sends one command and returns the first line of the answer.
func ask(ctx context.Context, addr, command string) ([]byte, error) {
	s, err := open(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if _, err = s.probe(ctx); err == nil {
		if _, err = s.conn.Write([]byte(command)); err == nil {
			var line []byte
			if line, err = s.line(); err == nil {
				return bytes.Clone(line), nil
			}
		}
	}
	return nil, s.explain(ctx, err)
}

// other names what answers instead of a memcached server, as far as its answer to "version" shows; empty if it does not.
func other(answer []byte) string {
	for _, known := range []struct{ begins, name string }{
		{"HTTP/", "an HTTP server"}, {"-ERR", "a Redis server"}, {"-NOAUTH", "a Redis server"}, {"SSH-", "an SSH server"},
		{"\x15\x03", "a server that wants TLS"}, {"220 ", "a mail or FTP server"}, {"+OK", "a POP3 server"},
	} {
		if bytes.HasPrefix(answer, []byte(known.begins)) {
			return known.name
		}
	}
	// MySQL greets with a packet: three bytes of length, a zero, and its protocol version, 10, which ends a line.
	if len(answer) == 4 && answer[1] == 0 && answer[2] == 0 && answer[3] == 0 {
		return "a MySQL server"
	}
	return ""
}

// sum adds up the statistics of several servers: what is a whole number everywhere is added, except for what makes no sense as a sum.
func sum(into, more map[string]string) {
	for name, value := range more {
		a, errA := strconv.ParseInt(into[name], 10, 64)
		b, errB := strconv.ParseInt(value, 10, 64)
		switch name {
		case "pid", "uptime", "time", "pointer_size", "max_connections":
			continue
		}
		if name == "control" && into[name] != value {
			into[name] = "" // there is none that all of them have
			continue
		}
		if _, known := into[name]; !known {
			into[name] = value
		} else if errA == nil && errB == nil {
			into[name] = strconv.FormatInt(a+b, 10)
		}
	}
}
