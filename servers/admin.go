//go:build linux

package servers

import (
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"spillway/internal/memproto"
)

// Detailed is implemented by a Backend that can tell more of itself than its counts.
type Detailed interface {
	// Detail yields the rows of "stats topic" for topics items, slabs and settings; known is false for one that it has nothing about.
	Detail(topic string) (rows iter.Seq2[string, string], known bool)
	// Reset sets the counts that only grow back to 0.
	Reset()
}

// maxVerbosity is as far as the verbosity command goes.
const maxVerbosity = 2

const (
	errorText  = "ERROR"
	formatText = "CLIENT_ERROR bad command line format"
)

// admin answers a command about the server or the connection. What memcached has switches for and this server has not is answered as
// memcached does when it is switched off.
func (s *Server) admin(q *call, w *memproto.Writer) {
	var args []string
	if len(q.cmd.Args) > 0 { // "mn" has none, and is frequent
		args = strings.FieldsFunc(string(q.cmd.Args), func(r rune) bool { return r == ' ' })
	}
	quiet := len(args) > 0 && args[len(args)-1] == "noreply"
	line := ""
	switch q.cmd.Verb {
	case memproto.MetaNoop:
		w.Line("MN")
		return
	case memproto.Version:
		w.Line("VERSION " + s.config.Version)
		return
	case memproto.Stats:
		s.adminStats(args, w)
		return
	case memproto.Quit:
		return
	case memproto.Shutdown:
		w.Line("ERROR: shutdown not enabled")
		return
	case memproto.Verbosity:
		line = s.setVerbosity(args)
	case memproto.CacheMemlimit:
		line = s.memlimit(args)
	case memproto.Watch:
		line = "CLIENT_ERROR watch commands not allowed"
	case memproto.LRU:
		line, quiet = errorText, quiet && len(args) > 1
	case memproto.Slabs:
		line, quiet = slabs(args)
	case memproto.LRUCrawler:
		line, quiet = crawler(args), false
	}
	if !quiet || line == errorText && q.cmd.Verb != memproto.LRU {
		w.Line(line)
	}
}

func (s *Server) setVerbosity(args []string) string {
	if len(args) < 1 || len(args) > 2 {
		return errorText
	}
	level, ok := memproto.ParseUint32([]byte(args[0]))
	if !ok {
		return formatText
	}
	s.verbose.Store(int32(min(level, maxVerbosity)))
	return "OK"
}

// memlimit answers cache_memlimit. The memory is reserved when the server starts and cannot be changed.
func (s *Server) memlimit(args []string) string {
	const least, most = 8, 1_000_000_000
	if len(args) < 1 || len(args) > 2 {
		return errorText
	}
	limit, ok := memproto.ParseUint32([]byte(args[0]))
	switch {
	case !ok:
		return errorText
	case limit < least:
		return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
	case limit > most:
		return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"
	}
	if rows, known := s.detail("settings"); known {
		for name, value := range rows {
			if name == "maxbytes" && value == strconv.FormatUint(uint64(limit)<<20, 10) {
				return "OK"
			}
		}
	}
	return "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"
}

func slabs(args []string) (line string, quiet bool) {
	switch {
	case len(args) == 3 && args[0] == "reassign":
		return "CLIENT_ERROR slab reassignment disabled", false
	case len(args) < 2 || args[0] != "automove":
		return errorText, false
	}
	quiet = args[len(args)-1] == "noreply"
	level, ok := memproto.ParseUint32([]byte(args[1]))
	switch {
	case !ok:
		return formatText, quiet
	case level > 2:
		return errorText, quiet
	case level > 0:
		return "CLIENT_ERROR slab reassignment disabled", quiet
	}
	return "OK", quiet
}

func crawler(args []string) string {
	const disabled = "CLIENT_ERROR lru crawler disabled"
	switch {
	case len(args) == 2 && (args[0] == "crawl" || args[0] == "metadump" || args[0] == "tocrawl" || args[0] == "sleep"):
		return disabled
	case len(args) == 1 && args[0] == "enable":
		return "ERROR failed to start lru crawler thread"
	case len(args) == 1 && args[0] == "disable":
		return "OK"
	}
	return errorText
}

func (s *Server) detail(topic string) (iter.Seq2[string, string], bool) {
	if d, ok := s.backend.(Detailed); ok {
		return d.Detail(topic)
	}
	return nil, false
}

// adminStats answers the stats command.
func (s *Server) adminStats(args []string, w *memproto.Writer) {
	if len(args) == 0 {
		writeStats(w, s.stats())
		return
	}
	topic := args[0]
	rows, known := s.detail(topic)
	switch topic {
	case "spillway":
		rows, known = s.spillwayStats(), true
	case "trace":
		if s.config.Trace != nil {
			rows, known = s.config.Trace(traceFrom(args[1:])), true
		}
	case "settings":
		rows, known = s.settings(rows), true
	case "conns":
		rows, known = s.connStats, true
	case "sizes":
		// The sizes of all items are not kept; memcached keeps them only when it is told to.
		rows, known = func(yield func(string, string) bool) { yield("sizes_status", "disabled") }, true
	case "reset":
		s.reset()
		w.Line("RESET")
		return
	case "detail":
		w.Line(statsDetail(args[1:]))
		return
	case "cachedump":
		w.Line("CLIENT_ERROR stats cachedump not allowed")
		return
	}
	if !known {
		w.Line(errorText)
		return
	}
	writeStats(w, rows)
}

// traceFrom returns from which point on a series is asked for; what is not a number means from the beginning.
func traceFrom(args []string) int {
	if len(args) != 1 {
		return 0
	}
	n, _ := memproto.ParseUint32([]byte(args[0]))
	return int(n)
}

// statsDetail answers "stats detail". Counts by prefix of keys are not kept.
func statsDetail(args []string) string {
	if len(args) > 0 {
		switch args[0] {
		case "on":
			return "CLIENT_ERROR stats detail is not available"
		case "off":
			return "OK"
		case "dump":
			return "END"
		}
	}
	return "CLIENT_ERROR usage: stats detail on|off|dump"
}

// reset sets the counts of the plain stats that only grow back to 0. Those of overload control go on: whoever watches them works with
// differences.
func (s *Server) reset() {
	if d, ok := s.backend.(Detailed); ok {
		d.Reset()
	}
	s.total.Store(0)
	s.turned.Store(0)
	s.disabled.Store(0)
	for _, l := range s.loops {
		l.bytesRead.Store(0)
		l.bytesWritten.Store(0)
		l.yields.Store(0)
		l.idleKicks.Store(0)
	}
}

// settings yields what is set of the server, and then of its backend.
func (s *Server) settings(backend iter.Seq2[string, string]) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		c := &s.config
		port, hosts, socket := 0, []string{}, "NULL"
		for i := range s.listen {
			l := &s.listen[i]
			if l.path != "" {
				socket = l.path
			} else if host, p, err := net.SplitHostPort(l.name); err == nil {
				port, _ = strconv.Atoi(p)
				hosts = append(hosts, host)
			}
		}
		inter := "NULL"
		if len(hosts) > 0 {
			inter = strings.Join(hosts, ",")
		}
		for _, row := range [][2]string{
			{"maxconns", strconv.Itoa(c.MaxConns)}, {"tcpport", strconv.Itoa(port)}, {"udpport", "0"}, {"inter", inter},
			{"verbosity", strconv.Itoa(int(s.verbose.Load()))}, {"domain_socket", socket}, {"umask", strconv.FormatUint(uint64(c.UnixMode), 8)},
			{"shutdown_command", "no"}, {"num_threads", strconv.Itoa(c.Loops)}, {"stat_key_prefix", ":"}, {"detail_enabled", "no"},
			{"reqs_per_event", strconv.Itoa(c.Pipeline)}, {"tcp_backlog", strconv.Itoa(backlog())}, {"binding_protocol", "ascii"},
			{"auth_enabled_sasl", "no"}, {"auth_enabled_ascii", "no"}, {"maxconns_fast", "yes"}, {"slab_reassign", "no"}, {"slab_automove", "0"},
			{"lru_crawler", "no"}, {"dump_enabled", "no"}, {"lru_maintainer_thread", "no"}, {"lru_segmented", "no"}, {"temp_lru", "no"},
			{"idle_timeout", strconv.Itoa(int(c.IdleTimeout.Seconds()))}, {"track_sizes", "no"}, {"inline_ascii_response", "no"},
		} {
			if !yield(row[0], row[1]) {
				return
			}
		}
		if backend != nil {
			backend(yield)
		}
	}
}

// connStats yields addresses and state of listeners and connections, by descriptor.
func (s *Server) connStats(yield func(name, value string) bool) {
	row := func(fd int, name, value string) bool { return yield(fmt.Sprintf("%d:%s", fd, name), value) }
	for _, l := range s.loops {
		if !l.connStats(row) {
			return
		}
	}
}

// connStats gives the connections of one loop to row, and for the first loop the listeners, which are its own.
func (l *loop) connStats(row func(fd int, name, value string) bool) bool {
	l.connMu.Lock()
	defer l.connMu.Unlock()
	for i := range l.server.listen {
		ls := &l.server.listen[i]
		if l.index == 0 && ls.fd >= 0 && !(row(ls.fd, "addr", ls.address()) && row(ls.fd, "state", "conn_listening")) {
			return false
		}
	}
	for i := range l.slots {
		c := l.slots[i].conn
		if c == nil {
			continue
		}
		from, _ := unix.Getpeername(c.fd) // one that is being closed has none
		to, _ := unix.Getsockname(c.fd)
		if !(row(c.fd, "addr", sockName(from)) && row(c.fd, "listen_addr", sockName(to)) && row(c.fd, "state", "conn_read")) {
			return false
		}
	}
	return true
}

func (l *listener) address() string {
	if l.path != "" {
		return "unix:" + l.path
	}
	return "tcp:" + l.name
}

func sockName(a unix.Sockaddr) string {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return "tcp:" + net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(a.Port))
	case *unix.SockaddrInet6:
		return "tcp6:" + net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(a.Port))
	case *unix.SockaddrUnix:
		return "unix:" + a.Name
	}
	return "?"
}
