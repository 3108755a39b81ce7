//go:build linux

package memcached_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes up commands, mostly good ones, out of a seed.
type generator struct {
	rng *rand.Rand
	// large makes it send large values, otherwise it sends wrong lengths. With both, a value would sooner or later be read as an endless
	// line.
	large bool
}

func (g *generator) pick(list ...string) string { return list[g.rng.IntN(len(list))] }

// one reports true once in n times.
func (g *generator) one(n int) bool { return g.rng.IntN(n) == 0 }

func (g *generator) key() string {
	if g.one(5) {
		return g.pick("n1", "n2")
	}
	return g.asked()
}

// asked returns a key that may be asked for. Those that begin with n may not: memcached puts another item in the place of a number of
// which it has a reply to send, instead of changing it in place, and the item shows that.
func (g *generator) asked() string {
	return g.pick("a", "b", "c", "key:1", "YWJj", "abc", strings.Repeat("K", 250))
}

// wrong returns text where a number should be, unless a large value follows which would then be read as lines.
func (g *generator) wrong() string {
	if g.large {
		return "0"
	}
	return g.pick("x", "--1", "99999999999999999999")
}

func (g *generator) exptime() string { return g.pick("0", "0", "0", "100", "-1", "1000", g.wrong()) }

func (g *generator) end() string { return g.pick("\r\n", "\r\n", "\r\n", "\n") }

// value returns one for a key. Keys that begin with n have numbers, mostly, far from where they become longer or shorter: whether
// memcached fills up with spaces then depends on what it has not sent yet.
func (g *generator) value(key string) string {
	switch {
	case key[0] == 'n' && !g.one(8):
		return fmt.Sprint(5_000_000_000 + g.rng.IntN(1_000_000_000))
	case g.large && g.one(30):
		return strings.Repeat("0123456789", g.rng.IntN(20_000))
	case key[0] == 'n':
		return g.pick("x", "12y", "", "18446744073709551616", "-5")
	}
	return strings.Repeat(g.pick("x", "get a\r\n", "\r\n.", "\x00\xff"), g.rng.IntN(4))
}

// block returns a storage command with its block.
func (g *generator) block(head, value, tail string) string {
	length := len(value)
	if g.one(15) && !g.large {
		length += g.rng.IntN(5) - 2
	}
	return fmt.Sprintf("%s %d%s%s%s\r\n", head, length, tail, g.end(), value)
}

func (g *generator) flags(known ...string) string {
	var b strings.Builder
	for range g.rng.IntN(6) {
		b.WriteString(g.pick(" ", " ", " ", "  "))
		if g.one(30) {
			known = []string{"Z", "Tx", "O", "P9", "1", "Oq", "L", "b", "E3", "x", "M", "Nx", "Rx", "Dx", "Jx", "Cx", "Fx", "O" + strings.Repeat("o", 32)}
		}
		b.WriteString(known[g.rng.IntN(len(known))])
	}
	return b.String()
}

func (g *generator) command() string {
	key := g.key()
	noreply := g.pick("", "", "", " noreply", " nope")
	switch g.rng.IntN(20) {
	case 0, 1, 2:
		verb := g.pick("set", "set", "add", "replace")
		return g.block(fmt.Sprintf("%s %s %d %s", verb, key, g.rng.IntN(3), g.exptime()), g.value(key), noreply)
	case 3:
		value := g.value(key)
		if key[0] == 'n' {
			value = g.pick("7", "1", "z")
		}
		return g.block(fmt.Sprintf("%s %s 0 0", g.pick("append", "prepend"), key), value, noreply)
	case 4:
		return g.block(fmt.Sprintf("cas %s 1 %s", key, g.exptime()), g.value(key), " "+g.pick("0", "999999999", g.wrong())+noreply)
	case 5, 6:
		value := g.value(key)
		flags := g.flags("q", "k", "O1", "F5", "T100", "c", "MS", "MS", "ME", "MR", "b", "C999999", "C0", "P1", "I", "N5", "s")
		if key[0] != 'n' && g.one(3) {
			flags = g.flags("MA", "MP", "q", "c", "k", "O2", "C0")
		}
		return g.block("ms "+key, value, flags)
	case 7, 8, 9:
		return "mg " + g.asked() + g.flags("v", "s", "k", "O12", "f", "q", "h", "c", "b", "t", "u", "T30", "T-1", "N30", "R50", "R5000", "l", "M+", "D3", "I") + g.end()
	case 10:
		return "md " + key + g.flags("q", "k", "O3", "b", "C999999", "I", "T30", "T-1", "v") + g.end()
	case 11:
		return "ma " + g.pick("n1", "n2") + g.flags("q", "k", "O4", "b", "C999999", "N0", "N30", "N-1", "J6000000000", "D2", "MI", "M+", "MD", "M-", "v", "t", "c", "Mx") + g.end()
	case 12:
		return "me " + key + g.pick("", "", " b", " x") + g.end()
	case 13:
		return "delete " + key + g.pick("", "", " 0", " noreply", " 0 noreply", " 3") + g.end()
	case 14:
		return g.pick("incr ", "decr ") + g.pick("n1", "n2") + " " + g.pick("1", "5", "100", "-1", "x", "18446744073709551616") + noreply + g.end()
	case 15:
		return "touch " + key + " " + g.exptime() + noreply + g.end()
	case 16:
		return fmt.Sprintf("gat%s %s %s %s%s", g.pick("", "s"), g.exptime(), g.asked(), g.pick("a", "b", "none", ""), g.end())
	case 17:
		return g.other()
	}
	return fmt.Sprintf("get%s %s %s%s", g.pick("", "s"), g.asked(), g.pick("a", "b", "none", ""), g.end())
}

// other returns a command that is not about one item, or none at all.
func (g *generator) other() string {
	switch {
	case g.one(4):
		return "flush_all" + g.pick("", " 0", " -1", " noreply", " 0 noreply", " x") + g.end()
	case g.one(4):
		return g.garbage() + g.end()
	}
	return g.pick("mn", "version", "bogus", "", "set a", "get", "mg", "md", "ma", "me", "gat 5", "gat", "incr a", "touch a", "cas a 0 0 1", "verbosity 1", "verbosity",
		"verbosity x", "stats bogus", "stats cachedump 1 1", "lru", "lru tune", "watch", "slabs reassign 1 2", "shutdown", "append a 0 0 x", "prepend") + g.end()
}

// garbage is bytes without meaning, and without a line end.
func (g *generator) garbage() string {
	b := make([]byte, 1+g.rng.IntN(60))
	for i := range b {
		if b[i] = byte(g.rng.Uint32()); b[i] == '\n' || i == 0 && b[i] == 'H' {
			b[i] = ' '
		}
	}
	return string(b)
}
