//go:build linux

package memcached_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/servers/memcached"
)

// stepper talks to one server, one command after the other.
type stepper struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func newStepper(t *testing.T, path string) *stepper {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &stepper{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// do sends a command and returns what comes back before the reply to a noop behind it.
func (s *stepper) do(command string) []byte {
	s.t.Helper()
	if _, err := io.WriteString(s.conn, command+"mn\r\n"); err != nil {
		s.t.Fatalf("%.100q: %v", command, err)
	}
	var got []byte
	for {
		line, err := s.in.ReadBytes('\n')
		if err != nil {
			s.t.Fatalf("%.100q: %v after %.100q", command, err, got)
		}
		if string(line) == "MN\r\n" {
			return got
		}
		got = append(got, line...)
	}
}

var casFlag = regexp.MustCompile(` c(\d+)`)

// cas returns the CAS number of a key, 0 if it is not there.
func (s *stepper) cas(key string) uint64 {
	m := casFlag.FindSubmatch(s.do("mg " + key + " c u\r\n"))
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseUint(string(m[1]), 10, 64)
	return n
}

// stats returns a group of figures.
func (s *stepper) stats(names ...string) map[string]string {
	all := map[string]string{}
	for line := range bytes.Lines(s.do("stats\r\n")) {
		if words := strings.Fields(string(line)); len(words) == 3 {
			all[words[1]] = words[2]
		}
	}
	some := map[string]string{}
	for _, name := range names {
		some[name] = all[name]
	}
	return some
}

// TestStepsLikeMemcached sends one command at a time, with the CAS numbers that each server gave, and in the end compares what the two
// have counted.
func TestStepsLikeMemcached(t *testing.T) {
	t.Parallel()
	pathTheirs, pathOurs := pair(t)
	theirs, ours := newStepper(t, pathTheirs), newStepper(t, pathOurs)
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 20_000
	if testing.Short() || memcached.RaceEnabled {
		rounds = 4000
	}
	for _, s := range []*stepper{theirs, ours} { // so that there is a lower number than the first one
		s.do("set a 0 0 0\r\n\r\nset a 0 0 0\r\n\r\n")
	}
	for i := range rounds {
		if i%100 == 0 {
			theirs.do("flush_all\r\n")
			ours.do("flush_all\r\n")
		}
		command, key := step(rng)
		of := func(s *stepper) string {
			if !strings.Contains(command, "@") {
				return command
			}
			n := s.cas(key)
			return strings.NewReplacer("@=", fmt.Sprint(n), "@-", fmt.Sprint(n-min(n, 1)), "@+", fmt.Sprint(n+1000)).Replace(command)
		}
		want, got := normal(theirs.do(of(theirs))), normal(ours.do(of(ours)))
		if !bytes.Equal(want, got) {
			t.Fatalf("step %d: %q\nmemcached: %q\nours:      %q", i, command, want, got)
		}
		if key != "" { // and what has become of the item
			look := "mg " + key + " v f s t h u k\r\nme " + key + "\r\n"
			if want, got := normal(theirs.do(look)), normal(ours.do(look)); !bytes.Equal(want, got) {
				t.Fatalf("step %d: after %q\nmemcached: %q\nours:      %q", i, command, want, got)
			}
		}
	}
	// Not get_flushed: memcached also comes across flushed items when it stores others.
	names := []string{
		"cmd_get", "cmd_set", "cmd_flush", "cmd_touch", "cmd_meta", "get_hits", "get_misses", "get_expired", "delete_misses", "delete_hits",
		"incr_misses", "incr_hits", "decr_misses", "decr_hits", "cas_misses", "cas_hits", "cas_badval", "touch_hits", "touch_misses", "store_too_large",
		"store_no_memory", "curr_items", "total_items", "limit_maxbytes", "evictions", "max_connections", "threads", "accepting_conns", "auth_cmds",
	}
	want, got := theirs.stats(names...), ours.stats(names...)
	want["threads"] = got["threads"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-memcached +ours)\n%s", diff)
	}
}

// step makes up a good command about one key. "@=" in it stands for the key's CAS number, "@-" for a lower and "@+" for a higher one.
func step(rng *rand.Rand) (command, key string) {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	key = pick("a", "b", "c", "n", "m")
	value := pick("9", "10", "99", "100", "0", "18446744073709551615", "x", "", "abc", "5 ")
	exptime := pick("0", "0", "100", "5000", "-1")
	block := func(head, tail string) string { return fmt.Sprintf("%s %d%s\r\n%s\r\n", head, len(value), tail, value) }
	flags := func(list ...string) (all string) {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, f := range list[:rng.IntN(len(list)+1)] {
			all += " " + f
		}
		return all
	}
	mark := pick("@=", "@-", "@+", "0")
	switch rng.IntN(16) {
	case 0, 1:
		return block(pick("set", "add", "replace")+" "+key+" "+pick("0", "7")+" "+exptime, pick("", " noreply")), key
	case 2:
		return block(pick("append", "prepend")+" "+key+" 0 0", ""), key
	case 3:
		return block("cas "+key+" 1 "+exptime, " "+mark), key
	case 4, 5:
		return block("ms "+key, flags("C"+mark, "I", "T"+exptime, "F5", "c", "q", pick("MS", "ME", "MA", "MP", "MR"))), key
	case 6, 7:
		return "mg " + key + flags("N"+pick("0", "100", "-1"), "R"+pick("50", "1000", "0"), "T"+exptime, "v", "s", "h", "t", "f", "c", "q", "u", "l") + "\r\n", key
	case 8:
		return "md " + key + flags("C"+mark, "I", "T"+exptime, "q") + "\r\n", key
	case 9:
		return "ma " + key + flags("C"+mark, "N0", "J"+pick("0", "9", "99"), "D"+pick("1", "10", "18446744073709551615"), pick("MI", "MD", "M+", "M-"), "v", "c", "t", "q") + "\r\n", key
	case 10, 11:
		return pick("incr ", "decr ") + key + " " + pick("0", "1", "9", "1000", "18446744073709551615") + pick("", " noreply") + "\r\n", key
	case 12:
		return "delete " + key + "\r\n", key
	case 13:
		return "touch " + key + " " + exptime + pick("", " noreply") + "\r\n", key
	case 14:
		return pick("gat ", "gats ") + exptime + " " + key + "\r\n", key
	}
	return pick("get ", "gets ") + key + " " + pick("a", "none", "n") + "\r\n", key
}
