//go:build linux

package web

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"time"

	"spillway/control"
	"spillway/guard"
)

// Config says how a Server serves. Default fills it.
type Config struct {
	Listen []string // host:port; at least one

	Classes     []string // names of the classes, by control.Request.Class; at least one
	Otherwise   int      // the class of requests that name none, or none that there is
	ClassHeader string   // which says the class; empty for none
	ClassInPath bool     // the first segment of the path says it instead: /CLASS/kv/KEY

	Control string // name of the controller, which /metrics shows; empty for one that nobody named

	Slots    int           // requests in service at once; negative for no limit, 0 for what suits the services (see slots)
	Queue    int           // requests that may wait in the Gate; 0 for no limit
	Deadline time.Duration // a request that has waited longer than this is refused as expired; 0 for never
	Cores    int           // goroutines that compute at once

	MaxConns      int           // connections beyond this are turned away
	MaxHeader     int           // bytes of a request's line and headers
	MaxBody       int64         // bytes of a request's body
	HeaderTimeout time.Duration // for the whole head of a request, from the connection or its first byte on
	BodyTimeout   time.Duration // for the whole body, from the admission on
	WriteTimeout  time.Duration // for a client to take its reply
	IdleTimeout   time.Duration // after which a connection without a request is closed
	Streams       int           // requests of one HTTP/2 connection at once
	Grace         time.Duration // how long a shutdown waits for requests under way

	// Upstream is the server that admitted requests are passed on to, http://host:port; empty to serve them here. UpstreamConns bounds the
	// connections to it, and so the requests that it is asked at once.
	Upstream      string
	UpstreamConns int

	// Origin has it count requests by class and tenth of a second at /origin, to see what a protected server was asked for.
	Origin bool

	// Levels returns how full the resources of this computer are, for the controller; nil when nobody watches them.
	Levels func() []control.Level

	Version string // of the Server header
}

// Default returns the configuration of a server on the port 8080.
func Default() Config {
	return Config{
		Listen: []string{"127.0.0.1:8080"}, Classes: []string{"all"}, ClassHeader: HeaderClass, Cores: runtime.GOMAXPROCS(0),
		MaxConns: 8192, MaxHeader: 16 << 10, MaxBody: 1 << 20,
		HeaderTimeout: 5 * time.Second, BodyTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		Streams: 250, Grace: 5 * time.Second, UpstreamConns: 64, Version: "spillway",
	}
}

// Check says what is wrong with c, nil if nothing is.
func (c *Config) Check() error {
	switch {
	case len(c.Listen) == 0:
		return errors.New("no address to listen on")
	case len(c.Classes) == 0 || len(c.Classes) > maxClasses:
		return fmt.Errorf("%d classes: there must be from 1 to %d", len(c.Classes), maxClasses)
	case c.Otherwise < 0 || c.Otherwise >= len(c.Classes):
		return fmt.Errorf("class %d of %d for requests that name none", c.Otherwise, len(c.Classes))
	case c.Queue < 0 || c.Deadline < 0 || c.Grace < 0:
		return errors.New("queue, deadline and grace must not be negative")
	case c.Cores < 1 || c.MaxConns < 1 || c.MaxHeader < 1<<10 || c.MaxBody < 0 || c.Streams < 1 || c.UpstreamConns < 1:
		return errors.New("cores, connections and streams must be at least 1, the bound on headers at least 1 KiB, that on bodies not negative")
	case c.HeaderTimeout <= 0 || c.BodyTimeout <= 0 || c.WriteTimeout <= 0 || c.IdleTimeout <= 0:
		return errors.New("the times for headers, bodies, writing and idling must be longer than 0: a slow client would otherwise keep its connection for ever")
	}
	if c.ClassHeader != "" && !token(c.ClassHeader) {
		return fmt.Errorf("class header %q: a header's name has letters, digits and dashes, such as %s; no request could have this one", c.ClassHeader, HeaderClass)
	}
	seen := map[string]bool{}
	for _, name := range c.Classes {
		if name == "" || seen[name] || name != url.PathEscape(name) {
			return fmt.Errorf("class %q: names are different from each other, and fit a header and a path", name)
		}
		seen[name] = true
	}
	for _, addr := range c.Listen {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("address %q: write host:port", addr)
		}
	}
	if c.Upstream != "" {
		u, err := url.Parse(c.Upstream)
		if err != nil || u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil {
			return fmt.Errorf("upstream %q: write http://host:port", c.Upstream)
		}
	}
	return nil
}

// token reports whether s can be the name of a header (RFC 9110, section 5.6.2).
func token(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		letter, digit := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z', r >= '0' && r <= '9'
		return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// maxClasses bounds what is kept for each class.
const maxClasses = 64

// slotsPerCore is how many requests may be in service for each core, where they may wait halfway: those that wait keep their slots.
const slotsPerCore = 64

// slots returns the size of the Gate, 0 for no limit.
func (c *Config) slots(waits bool) int {
	switch {
	case c.Slots > 0:
		return c.Slots
	case c.Slots < 0:
		return 0
	case c.Upstream != "":
		return c.UpstreamConns // who would wait for a connection waits in the Gate, where the controller sees it
	case waits:
		return slotsPerCore * c.Cores
	}
	return c.Cores
}

// The headers of our own.
const (
	HeaderClass    = guard.ClassHeader    // of requests: the name of the class
	HeaderPriority = guard.PriorityHeader // of requests: a number, the smaller the more important
	HeaderReason   = guard.ReasonHeader   // of replies with 429 and 503: why, by a name of control.Reason
)
