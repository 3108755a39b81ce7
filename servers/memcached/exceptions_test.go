//go:build linux

package memcached_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spillway/servers/memcached"
)

// exception is one thing that our server answers in another way than memcached 1.6.18.
type exception struct {
	send   string
	theirs string // regular expression that the whole reply matches; "-" where it cannot be tried, because it does not end or needs time
	ours   string
	reason string
}

// exceptions is all that is known to differ. What other tests send avoids it. Beside it, numbers differ that mean nothing to a client: CAS
// (both count up, by different steps), the number of a size class, and the figures of stats.
var exceptions = []exception{
	{"version\r\n", `VERSION 1\.6\.18\r\n`, `VERSION 1\.6\.18-spillway\r\n`, "it is another server"},
	{"mg none L P7 O1\r\n", `EN O1\r\n`, `EN L\d+,\d+ O1\r\n`, "the L token asks our servers for their timings; memcached ignores it"},
	{"ms e 1\r\nx\r\nmg e T-1 t\r\n", `HD\r\nHD t42\d{8}\r\n`, `HD\r\nHD t0\r\n`, "the time left of what has just been made to expire is 0, and not that much below 2^32"},
	{"ms e 1\r\n9\r\nma e T100 t\r\nmg e t\r\n", `HD\r\nHD t100\r\nHD t-1\r\n`, `HD\r\nHD t100\r\nHD t100\r\n`,
		"a number that grows by a digit keeps the time that the same command gives it"},
	{"set e 0 0 2\r\n10\r\nmg e v\r\ndecr e 1\r\nget e\r\n", `STORED\r\nVA 2\r\n10\r\n9\r\nVALUE e 0 1\r\n9\r\nEND\r\n`,
		`STORED\r\nVA 2\r\n10\r\n9\r\nVALUE e 0 2\r\n9 \r\nEND\r\n`,
		"a number is always changed in place; memcached makes a new item, without its marks, while a reply of mg with the old one has not been sent"},
	{"set e 0 0 2\r\n\r\n\r\nincr e 1\r\n", "-", `STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n`,
		"memcached reads on behind a value of nothing but white space, in what was there before"},
	{"set e 0 0 70000\r\n5" + strings.Repeat(" ", 69999) + "\r\nincr e 1\r\n", `STORED\r\n6\r\n`, `STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n`,
		"a number takes at most 64 KiB; in memcached 512 KiB"},
	{"version\r\nget " + strings.Repeat("k", 251) + "\r\n", `CLIENT_ERROR bad command line format\r\n`, `VERSION \S+\r\nCLIENT_ERROR bad command line format\r\n`,
		"memcached loses the replies to earlier commands of a packet that has a get with a key that is too long"},
	{"version\r\n" + strings.Repeat("x", 2049), ``, `VERSION \S+\r\n`, "memcached loses the replies to what comes before an endless line"},
	{"set e 0 0 2147483645\r\n", "-", `SERVER_ERROR object too large for cache\r\n`, "a length within two of 2^31 leaves memcached waiting for ever"},
	{"get " + strings.Repeat("k ", 600_000), "-", ``, "a get may have a MiB of keys; memcached has no bound"},
	{"\x80\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", `(?s)\x{FFFD}.*1\.6\.18`, `CLIENT_ERROR the binary protocol .*\r\n`,
		"the binary protocol is not spoken"},
	{"set e 0 0 1\r\nx\r\nflush_all\r\nflush_all 100\r\nget e\r\n", `STORED\r\nOK\r\nOK\r\nVALUE e 0 1\r\nx\r\nEND\r\n`, `STORED\r\nOK\r\nOK\r\nEND\r\n`,
		"in memcached a flush to come brings back what the last one took"},
	{"stats detail on\r\nstats detail off\r\n", `OK\r\nOK\r\n`, `CLIENT_ERROR stats detail is not available\r\nOK\r\n`, "counts by prefix are not kept"},
	{"stats sizes_enable\r\nstats sizes_disable\r\nstats extstore\r\n", `(?s).*END\r\n.*`, `ERROR\r\nERROR\r\nERROR\r\n`, "there is no such thing to switch on, and no second storage"},
	{"cache_memlimit 100\r\ncache_memlimit 64\r\n", `OK\r\nOK\r\n`, `MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\nOK\r\n`, "memory is reserved at the start"},
	{"slabs automove 1\r\nslabs automove ratio 0.5\r\nslabs automove 0\r\n", `OK\r\nOK\r\nOK\r\n`, `CLIENT_ERROR slab reassignment disabled\r\nCLIENT_ERROR bad command line format\r\nOK\r\n`,
		"pages move from class to class by themselves"},
	{"lru tune 10 20 0.1 2\r\n", `OK\r\n`, `ERROR\r\n`, "there is one list, with nothing to tune"},
	{"lru_crawler tocrawl 5\r\nlru_crawler sleep 5\r\n", `OK\r\nOK\r\n`, `(CLIENT_ERROR lru crawler disabled\r\n){2}`, "there is no crawler to set up"},
	{"extstore item_size 512\r\nrefresh_certs\r\n", `(?s)OK\r\n.*`, `ERROR\r\nERROR\r\n`, "no second storage, no TLS"},
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	theirs := startDebian(t)
	ours := strings.TrimPrefix(startOurs(t, memcached.DefaultConfig(), "unix://"+filepath.Join(t.TempDir(), "s")), "unix://")
	whole := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) }
	for _, e := range exceptions {
		if got := ask(t, ours, []byte(e.send)); !whole(e.ours).Match(got) {
			t.Errorf("%.60q: we answer %.200q, the table says %q (%s)", e.send, got, e.ours, e.reason)
		}
		if e.theirs == "-" {
			continue
		}
		got := []byte(strings.ToValidUTF8(string(ask(t, theirs, []byte(e.send))), "\uFFFD"))
		if !whole(e.theirs).Match(got) {
			t.Errorf("%.60q: memcached answers %.200q, the table says %q (%s)", e.send, got, e.theirs, e.reason)
		}
		if whole(e.ours).Match(got) {
			t.Errorf("%.60q: memcached answers as we do, %.200q: this is no exception", e.send, got)
		}
	}
}
