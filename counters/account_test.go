//go:build linux

package counters

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

const mb = 1 << 20

// touched returns a region all of which has been written.
func touched(a *Account, size int64) *Region {
	r := a.Region(size)
	r.Touched(size)
	return r
}

// What crosses the bus, as the reference says: by use, for a working set that no cache holds.
func TestFactors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		use             Use
		low, best, high uint64
	}{
		{UseRead, 1, 1, 1},
		{UseWrite, 1, 2, 2}, // the line is read before it is written, unless the processor notices
		{UseUpdate, 2, 2, 2},
		{UseCopy, 2, 3, 3},
		{UseNonTemporal, 1, 1, 1},
		{UseReadRandom, 8, 8, 16}, // a line for eight bytes, or two
	}
	for _, tt := range tests {
		a := NewAccount(32 * mb)
		a.Lane().Credit(touched(a, 1024*mb), tt.use, mb, mb)
		got := a.Totals()
		if got.Low != tt.low*mb || got.Best != tt.best*mb || got.High != tt.high*mb || got.Asked[tt.use] != mb {
			t.Errorf("use %d: %d %d %d of %d", tt.use, got.Low/mb, got.Best/mb, got.High/mb, got.Asked[tt.use]/mb)
		}
	}
}

// Reading memory that was never written reads the page of zeros, which stays in a cache.
func TestUntouchedMemoryMovesNothing(t *testing.T) {
	t.Parallel()
	a := NewAccount(32 * mb)
	l, r := a.Lane(), a.Region(1024*mb)
	l.Credit(r, UseRead, 512*mb, 512*mb)
	if got := a.Totals(); got.High != 0 || got.Asked[UseRead] != 512*mb {
		t.Errorf("%+v", got)
	}
	// The first write of it has the kernel clear the page, at most once more across the bus; from then on reads count, by the share that was written.
	l.Credit(r, UseWrite, 256*mb, 256*mb)
	if got := a.Totals(); got.Best != 512*mb || got.High != 512*mb+256*mb {
		t.Errorf("after a quarter was written: %+v", got)
	}
	l.Credit(r, UseRead, 512*mb, 512*mb)
	if got := a.Totals(); got.Best != (512+128)*mb {
		t.Errorf("reading a quarter that is there: %d MiB", got.Best/mb)
	}
	r.Touched(4096 * mb)
	before := a.Totals().Best
	l.Credit(r, UseRead, 512*mb, 512*mb)
	if got := a.Totals().Best - before; got != 512*mb {
		t.Errorf("reading what is all there: %d MiB", got/mb)
	}
}

// That is how this kernel behaves, too: memory that was only read is not there.
func TestZeroPage(t *testing.T) {
	const size = 8 * mb
	m, err := mapped(size)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	began, err := anonymous(m)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel has no /proc/self/smaps")
	}
	if err != nil {
		t.Fatal(err)
	}
	NewStream(m).Read(size)
	if read, err := anonymous(m); err != nil || read != began {
		t.Errorf("reading %d bytes that were never written made %d of them, %v", size, read-began, err)
	}
	m.touch()
	if written, err := anonymous(m); err != nil || written != began+size {
		t.Errorf("writing %d bytes made %d of them, %v", size, written-began, err)
	}
}

// anonymous returns how many bytes have pages of their own in the mapping that memory is in. The kernel may have joined it with others.
func anonymous(m *Memory) (int64, error) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	at := uint64(uintptr(unsafe.Pointer(&m.raw[0])))
	for _, mapping := range strings.Split(string(text), "\nVmFlags") {
		_, mapping, _ = strings.Cut(mapping, "\n") // the rest of the line of flags
		var from, to uint64
		if n, _ := fmt.Sscanf(mapping, "%x-%x", &from, &to); n != 2 || at < from || at >= to {
			continue
		}
		for _, line := range strings.Split(mapping, "\n") {
			if kb, ok := strings.CutPrefix(line, "Anonymous:"); ok {
				n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 64)
				return n << 10, err
			}
		}
	}
	return 0, errors.New("the mapping is not in smaps")
}

// What caches hold crosses the bus once, or not at all.
func TestCachedBytes(t *testing.T) {
	t.Parallel()
	const llc = 32 * mb
	tests := []struct {
		name              string
		region, live      int64 // this region, and others beside it
		bytes, span       int64
		low, best, highMB int64
	}{
		{"25 passes over 32 KiB of buffers that no cache holds: once", 1024 * mb, 0, 25 * mb, mb, 1, 1, 1},
		{"one pass over 1 MiB of them", 1024 * mb, 0, mb, mb, 1, 1, 1},
		{"passes over all of them", 1024 * mb, 0, 4096 * mb, 1024 * mb, 4096, 4096, 4096},
		{"a small working set alone stays in the cache", 8 * mb, 0, 100 * mb, 8 * mb, 0, 0, 0},
		{"beside others it may be driven out between uses", 8 * mb, 1024 * mb, 100 * mb, 8 * mb, 0, 8, 8},
		{"just below the size of the cache nobody knows", 24 * mb, 0, 240 * mb, 24 * mb, 0, 0, 240},
		{"just above it neither", 48 * mb, 0, 480 * mb, 48 * mb, 0, 480, 480},
		{"twice its size is surely too much", 65 * mb, 0, 650 * mb, 65 * mb, 650, 650, 650},
	}
	for _, tt := range tests {
		a := NewAccount(llc)
		if tt.live > 0 {
			a.Region(tt.live)
		}
		a.Lane().Credit(touched(a, tt.region), UseRead, tt.bytes, tt.span)
		got := a.Totals()
		if got.Low != uint64(tt.low)*mb || got.Best != uint64(tt.best)*mb || got.High != uint64(tt.highMB)*mb {
			t.Errorf("%s: %d %d %d MiB, want %d %d %d", tt.name, got.Low/mb, got.Best/mb, got.High/mb, tt.low, tt.best, tt.highMB)
		}
	}
}

func TestClosedRegionNeedsNoCache(t *testing.T) {
	t.Parallel()
	a := NewAccount(32 * mb)
	other := a.Region(1024 * mb)
	small := touched(a, 8*mb)
	other.Close()
	a.Lane().Credit(small, UseRead, 80*mb, 8*mb)
	if got := a.Totals(); got.Best != 0 {
		t.Errorf("%d MiB", got.Best/mb)
	}
}

// The bounds are bounds, and nothing that is credited is lost or negative, whatever is asked for.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := NewAccount(rapid.Int64Range(0, 64*mb).Draw(t, "llc"))
		l := a.Lane()
		var asked uint64
		for range 10 {
			r := a.Region(rapid.Int64Range(-5, 128*mb).Draw(t, "region"))
			r.Touched(rapid.Int64Range(0, 256*mb).Draw(t, "touched"))
			u := Use(rapid.IntRange(0, int(uses)).Draw(t, "use")) // one more than there are
			bytes := rapid.Int64Range(-1, 256*mb).Draw(t, "bytes")
			l.Credit(r, u, bytes, rapid.Int64Range(-1, 256*mb).Draw(t, "span"))
			if bytes > 0 && u < uses {
				asked += uint64(bytes)
			}
			got := a.Totals()
			if got.Low > got.Best || got.Best > got.High || got.High > 17*asked {
				t.Fatalf("%+v of %d", got, asked)
			}
		}
		sum := uint64(0)
		for _, v := range a.Totals().Asked {
			sum += v
		}
		if sum != asked {
			t.Fatalf("%d of %d bytes were credited", sum, asked)
		}
	})
}

// Lanes belong to threads, and Totals reads them while they work.
func TestLanesAtOnce(t *testing.T) {
	t.Parallel()
	a := NewAccount(mb)
	r := touched(a, 1024*mb)
	const workers, each = 8, 1000
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			l := a.Lane()
			for range each {
				l.Credit(r, UseRead, 1000, 1000)
			}
		})
	}
	last := uint64(0)
	for last < workers*each*1000 {
		now := a.Totals().Best
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
	wg.Wait()
	if got := a.Totals(); got.Best != workers*each*1000 {
		t.Errorf("%d bytes", got.Best)
	}
}

func TestCreditAllocatesNothing(t *testing.T) {
	a := NewAccount(mb)
	l, r := a.Lane(), touched(a, 1024*mb)
	if n := testing.AllocsPerRun(100, func() { l.Begin(); l.Credit(r, UseCopy, chunk, chunk); l.End(); _ = a.Totals() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAccountedSource(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := NewAccount(mb)
	s, err := (Accounted{Account: a, Peak: 10e9}).Open(f.machine())
	if err != nil {
		t.Fatal(err)
	}
	l, r := a.Lane(), touched(a, 1024*mb)
	l.Credit(r, UseRead, 50e6, 50e6)
	if got := pass(f, s, 10*time.Millisecond); got.Rate() != 5e9 || got.Flags != Estimated || !math.IsNaN(got.Pressure) {
		t.Errorf("%+v", got)
	}
	if got := pass(f, s, 10*time.Millisecond); got.Rate() != 0 {
		t.Errorf("nothing credited is zero, and known: %+v", got)
	}
	l.Credit(r, UseRead, 500e6, 500e6)
	if got := pass(f, s, 10*time.Millisecond); math.Abs(got.Rate()-10.5e9) > 1 || got.Flags != Estimated|Overcount {
		t.Errorf("more than memory can move: %+v", got)
	}
	// Scans that get through less in a second of processor time than they did show contention.
	scan := func(bytes uint64, cpu time.Duration) Reading {
		l.scanned.Add(bytes)
		l.cpuNS.Add(uint64(cpu))
		return pass(f, s, 10*time.Millisecond)
	}
	if got := scan(8e6, time.Millisecond); got.Pressure != 0 {
		t.Errorf("alone: %v", got.Pressure)
	}
	if got := scan(4e6, time.Millisecond); got.Pressure != 0.5 {
		t.Errorf("at half of its speed: %v", got.Pressure)
	}
	if got := scan(1e5, 10*time.Microsecond); !math.IsNaN(got.Pressure) {
		t.Errorf("too little to say: %v", got.Pressure)
	}
	for _, p := range []Accounted{{}, {Account: a, Peak: -1}} {
		if _, err := p.Open(f.machine()); err == nil {
			t.Errorf("%+v opens", p)
		}
	}
}

// From how bandwidth grows with the number of streams alone: how many are enough.
func TestKnee(t *testing.T) {
	t.Parallel()
	var k Knee
	if _, _, ok := k.Fit(); ok {
		t.Error("a knee from nothing")
	}
	law := func(n int) float64 { return min(float64(n)*6e9, 36e9) }
	for n := 1; n <= 5; n++ {
		k.Add(n, law(n))
	}
	if x, most, ok := k.Fit(); ok {
		t.Errorf("nobody went beyond the knee, and it says %v, %v", x, most)
	}
	for n := 6; n <= 18; n++ {
		for i := range 20 {
			k.Add(n, law(n)*(1+0.02*float64(i%3-1)))
		}
	}
	x, most, ok := k.Fit()
	if !ok || math.Abs(x/6e9-1) > 0.03 || math.Abs(most/36e9-1) > 0.03 || math.Round(most/x) != 6 {
		t.Errorf("%v a stream, %v at most, %v", x, most, ok)
	}
	for _, n := range []int{0, -1, maxStreams + 1} {
		k.Add(n, 1)
	}
	k.Add(1, math.NaN())
	if again, _, _ := k.Fit(); again != x {
		t.Error("what is out of range changed it")
	}
}
