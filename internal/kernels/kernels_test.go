//go:build linux

package kernels

import (
	"testing"
	"unsafe"
)

// aligned returns words that begin at a multiple of a line, within a longer stretch whose rest is returned too, to see that it is left alone.
func aligned(lines int) (all, words []uint64) {
	all = make([]uint64, (lines+3)*LineWords)
	skip := LineWords
	for uintptr(unsafe.Pointer(&all[skip]))%LineBytes != 0 {
		skip++
	}
	return all, all[skip:][:lines*LineWords]
}

// TestKernelsTouchWhatTheySay: both forms of each kernel do the same to every word of what they are given, and to nothing else.
func TestKernelsTouchWhatTheySay(t *testing.T) {
	t.Parallel()
	const value, before = 0xfeedfacecafebeef, 7
	for _, lines := range []int{0, 1, 2, 63, 4096} {
		for name, store := range map[string]func(*uint64, int, uint64){"nontemporal": storeLines, "plain": plainStore} {
			all, words := aligned(max(lines, 1))
			for i := range all {
				all[i] = before
			}
			store(&words[0], lines, value)
			stored := 0
			for _, w := range all {
				switch w {
				case value:
					stored++
				case before:
				default:
					t.Fatalf("%s: there is %x", name, w)
				}
			}
			if stored != lines*LineWords {
				t.Errorf("%s stored %d words, want %d", name, stored, lines*LineWords)
			}
			for i, w := range words[:lines*LineWords] {
				if w != value {
					t.Fatalf("%s: word %d of %d lines was left out", name, i, lines)
				}
			}
		}
		for name, copy := range map[string]func(_, _ *uint64, _ int){"nontemporal": copyLines, "plain": plainCopy} {
			all, to := aligned(max(lines, 1))
			_, from := aligned(max(lines, 1))
			for i := range from {
				from[i] = uint64(i) + 1
			}
			copy(&to[0], &from[0], lines)
			copied := 0
			for _, w := range all {
				if w != 0 {
					copied++
				}
			}
			if copied != lines*LineWords {
				t.Errorf("%s copied %d words, want %d", name, copied, lines*LineWords)
			}
			for i := range to[:lines*LineWords] {
				if to[i] != from[i] {
					t.Fatalf("%s: word %d is %d", name, i, to[i])
				}
			}
		}
	}
}

// cache is a cache of a few lines that writes back what was written, and reads a line before it is written unless the store passes it by. It
// counts the lines that cross the bus.
type cache struct {
	lines         map[uint64]bool // dirty or not, by number
	order         []uint64
	room          int
	read, written int
}

func (c *cache) touch(line uint64, store, past bool) {
	if past { // a whole line, gathered outside of the cache
		c.written++
		return
	}
	dirty, held := c.lines[line]
	if !held {
		c.read++
		if len(c.order) == c.room {
			oldest := c.order[0]
			c.order = c.order[1:]
			if c.lines[oldest] {
				c.written++
			}
			delete(c.lines, oldest)
		}
		c.order = append(c.order, line)
	}
	c.lines[line] = dirty || store
}

// TestTrafficByCounting holds the factor of each kernel against what its loads and stores do to a cache that is much smaller than what they go over.
func TestTrafficByCounting(t *testing.T) {
	t.Parallel()
	const lines, room, passes = 10_000, 64, 3
	for _, k := range []*Kernel{&Read, &Write, &Copy, &Store} {
		c := &cache{lines: map[uint64]bool{}, room: room}
		past := nonTemporal && k != &Store
		for range passes {
			for i := range uint64(lines) {
				switch k {
				case &Read:
					c.touch(i, false, false)
				case &Copy:
					c.touch(lines+i, false, false)
					c.touch(i, true, past)
				default:
					c.touch(i, true, past)
				}
			}
		}
		program := float64(lines * passes)
		// What is still in the cache at the end has not been written back.
		if read, written := float64(c.read)/program, float64(c.written)/program; read != k.Traffic.Read || written > k.Traffic.Written ||
			written < k.Traffic.Written-float64(room)/program {
			t.Errorf("%s moves %.3f + %.3f bytes a byte, and says %v", k.Name, read, written, k.Traffic)
		}
	}
	if nonTemporal && (Write.Traffic.Total() != 1 || Copy.Traffic.Total() != 2 || !Write.Exact || !Copy.Exact) {
		t.Errorf("stores past the caches: %v, %v", Write.Traffic, Copy.Traffic)
	}
	if Store.Traffic.Total() != 2 || Store.Exact {
		t.Errorf("ordinary stores: %v", Store.Traffic)
	}
}

func TestReadLinesLoadsEveryLine(t *testing.T) {
	words := make([]uint64, 100*LineWords)
	for i := range words {
		words[i] = 1000
		if i%LineWords == 0 {
			words[i] = 1
		}
	}
	if got := readLines(words); got != 100 {
		t.Errorf("the sum of 100 lines' first words is %d", got)
	}
	if n := testing.AllocsPerRun(10, func() { Read.run(words, nil); Store.run(words, nil) }); n > 0 {
		t.Errorf("%v allocations a chunk", n)
	}
}
