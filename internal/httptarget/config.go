//go:build linux

package httptarget

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/internal/reqlog"
)

// Config says where requests go and how.
type Config struct {
	// URL is http://host:port/path. In its path, {key} stands for the key of a request, escaped, and {class} for the name of its class.
	URL string

	Classes     []string      // names, by class
	ClassHeader string        // by which requests say their class; empty for DefaultClassHeader, "-" for none
	Conns       int           // connections; client i uses connection i mod Conns while that has nothing under way
	MaxConns    int           // up to how many there may be, of all senders; 0 for DefaultMaxConns or Conns, whichever is more
	Shard       int           // of Shards senders, which one this is: it has the connections whose number is Shard modulo Shards
	Shards      int           // 0 means 1
	Clock       clock.Clock   // of the run
	Timeout     time.Duration // from the intended instant, after which the client stops waiting

	SLOs       []time.Duration      // latency limit by class, 0 for none
	Priorities []uint8              // business priority by class, 0 the most important, which requests say in X-Priority; nil when they say none
	Settle     func(*reqlog.Record) // is handed each record once; the record is valid during the call
	Spin       time.Duration        // how long before an instant Wait polls instead of sleeping; load.SpinAlways for all the time
}

const (
	// DefaultClassHeader is what package servers/web reads the class from.
	DefaultClassHeader = "X-Class"
	// DefaultMaxConns bounds the connections that an open loop adds when replies are slow. HTTP/1.1 has one request under way on each, so it is
	// the bound on requests under way as well.
	DefaultMaxConns = 4096
	// Most bounds connections: what one server's port and one process's descriptors may allow.
	Most = 1 << 16

	dialTimeout = 5 * time.Second
	headerNone  = "-"
)

func (c *Config) fill() {
	c.Shards = max(c.Shards, 1)
	if c.MaxConns == 0 {
		c.MaxConns = max(c.Conns, DefaultMaxConns)
	}
	if c.ClassHeader == "" {
		c.ClassHeader = DefaultClassHeader
	}
	if len(c.Classes) == 0 {
		c.Classes = []string{""}
	}
}

func (c *Config) check() error {
	switch {
	case c.Clock == nil || c.Settle == nil:
		return errors.New("httptarget: a clock and a function to settle records are needed")
	case c.Conns < 1 || c.Conns > Most || c.MaxConns > Most || c.MaxConns < c.Conns:
		return fmt.Errorf("%d connections, at most %d: there must be from 1 to %d, and they must not fall", c.Conns, c.MaxConns, Most)
	case c.Shard < 0 || c.Shard >= c.Shards || c.Conns < c.Shards:
		return fmt.Errorf("sender %d of %d with %d connections: each sender needs one", c.Shard, c.Shards, c.Conns)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: must be longer than 0", c.Timeout)
	}
	for _, b := range []byte(c.ClassHeader) {
		if !token[b] {
			return fmt.Errorf("class header %q: is no name of a header", c.ClassHeader)
		}
	}
	return nil
}

// What stands for parts of a request in the path of a URL.
const (
	keyMark   = "{key}"
	classMark = "{class}"
)

// Template is a URL with what stands for parts of requests in it.
type Template struct {
	Address string // host:port, as package net takes it
	Host    string // as the Host header has it
	Keyed   bool   // the path has the key in it

	before, after string // of the path, around the key; before is all of it when there is none
}

// ParseURL takes a target apart. The error says how one is written.
func ParseURL(text string) (Template, error) {
	wrong := func(why string) error {
		return fmt.Errorf("target %q: %s; write http://host:port/path, such as http://127.0.0.1:8080/kv/{key}", text, why)
	}
	// The marks have braces, which a URL has not: they are put aside while it is judged.
	const key, class = "spillway-key-mark", "spillway-class-mark"
	u, err := url.Parse(strings.NewReplacer(keyMark, key, classMark, class).Replace(text))
	switch {
	case err != nil:
		return Template{}, wrong("it is no URL")
	case u.Scheme == "https":
		return Template{}, wrong("TLS is not spoken here")
	case u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return Template{}, wrong("it needs a host, and neither user nor fragment")
	case strings.Contains(u.Host, "-mark"):
		return Template{}, wrong("only the path may have " + keyMark + " and " + classMark)
	}
	path := strings.NewReplacer(key, keyMark, class, classMark).Replace(u.RequestURI())
	if strings.Count(path, keyMark) > 1 {
		return Template{}, wrong(keyMark + " may stand in it once")
	}
	if rest := strings.NewReplacer(keyMark, "", classMark, "").Replace(text); strings.ContainsAny(rest, "{}") {
		return Template{}, wrong("in braces there may be key and class")
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return Template{}, wrong("its port is none")
	}
	t := Template{Address: net.JoinHostPort(u.Hostname(), port), Host: u.Host}
	t.before, t.after, t.Keyed = strings.Cut(path, keyMark)
	return t, nil
}

// Path returns the path of a key of a class.
func (t *Template) Path(class, key string) string {
	escaped := string(appendSegment(nil, []byte(class)))
	fill := func(part string) string { return strings.ReplaceAll(part, classMark, escaped) }
	if !t.Keyed {
		return fill(t.before)
	}
	return fill(t.before) + string(appendSegment(nil, []byte(key))) + fill(t.after)
}

// pieces are the parts of a class's requests that are the same in all of them.
type pieces struct {
	path []byte // before the key
	rest []byte // after it: the end of the request line, and headers
}

// requests prepares those of each class.
func (c *Config) requests(t *Template) (list []pieces) {
	for _, class := range c.Classes {
		escaped := string(appendSegment(nil, []byte(class)))
		fill := func(part string) string { return strings.ReplaceAll(part, classMark, escaped) }
		rest := " HTTP/1.1\r\nHost: " + t.Host + "\r\n"
		if c.ClassHeader != headerNone && class != "" {
			rest += c.ClassHeader + ": " + class + "\r\n"
		}
		list = append(list, pieces{path: []byte(fill(t.before)), rest: []byte(fill(t.after) + rest)})
	}
	return list
}
