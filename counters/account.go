//go:build linux

package counters

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"spillway/clock"
)

// Use says what a program does with bytes, which decides how many of them cross the bus.
type Use uint8

// The uses. Factors are DRAM bytes per byte of the program, for working sets that no cache holds.
const (
	UseRead        Use = iota // one after another
	UseWrite                  // ordinary stores: the line is read first, and written back later
	UseUpdate                 // read and written in place
	UseCopy                   // counted once: read, and a written line costs two
	UseNonTemporal            // stores that pass the caches by, and how kernels clear pages
	UseReadRandom             // eight bytes anywhere, counted as eight
	uses
)

// factor is how many bytes one byte of a use moves, and what it may be at least and at most.
type factor struct{ low, best, high float64 }

// Processors that notice whole lines being written save the read before the write under load (Intel since Ice Lake, AMD's write combining), and
// the prefetch of the neighbouring line doubles a random read. Those are the bounds.
var factors = [uses]factor{
	UseRead:        {1, 1, 1},
	UseWrite:       {1, 2, 2},
	UseUpdate:      {2, 2, 2},
	UseCopy:        {2, 3, 3},
	UseNonTemporal: {1, 1, 1},
	UseReadRandom:  {8, 8, 16},
}

// Account adds up the bytes that a program says it moves. It is an estimate with bounds: it counts what crosses the bus and not what is asked
// for, as far as can be told from the size of what is used and how often.
type Account struct {
	llc   int64 // bytes of the last-level cache
	live  atomic.Int64
	lanes struct {
		sync.Mutex
		list atomic.Pointer[[]*Lane] // replaced, never changed, so that readers need no lock
	}
}

// NewAccount returns an account for a machine with so much last-level cache.
func NewAccount(llcBytes int64) *Account {
	a := &Account{llc: max(llcBytes, 0)}
	a.lanes.list.Store(&[]*Lane{})
	return a
}

// Lane is where one thread or goroutine credits what it moves. It shares no cache line with others.
type Lane struct {
	account *Account
	_       [64]byte
	moved   [3]atomic.Uint64 // lowest, best, highest; DRAM bytes
	asked   [uses]atomic.Uint64
	scanned atomic.Uint64 // bytes of the program in scans
	cpuNS   atomic.Uint64 // that the scans took of a processor
	inside  atomic.Int64  // scans under way
	_       [64]byte

	// Of the scan under way; the lane's owner's alone.
	began time.Duration
	bytes int64
}

// Lane returns a new lane.
func (a *Account) Lane() *Lane {
	a.lanes.Lock()
	defer a.lanes.Unlock()
	l := &Lane{account: a}
	list := append(append([]*Lane(nil), *a.lanes.list.Load()...), l)
	a.lanes.list.Store(&list)
	return l
}

// Region is memory that streams go over. It starts as the system gives it: never written, so reading it moves nothing (all of it is one page of
// zeros, which stays in a cache).
type Region struct {
	account *Account
	size    int64
	touched atomic.Int64
}

// Region returns a region of so many bytes. Close it when it is not used any more: what regions there are together decides what a cache can hold.
func (a *Account) Region(size int64) *Region {
	a.live.Add(size)
	return &Region{account: a, size: max(size, 1)}
}

// Touched says that bytes of the region, all of them in the end, have been written for the first time. Credit for writes says so itself.
func (r *Region) Touched(bytes int64) {
	if n := r.touched.Add(bytes); n > r.size {
		r.touched.Store(r.size)
	}
}

// Close says that the region is no longer used.
func (r *Region) Close() { r.account.live.Add(-r.size) }

// Credit says that bytes of r were used, over a span of it: 25 passes over 32 KiB are 800 KiB over a span of 32 KiB. It is called for every 64 to 256
// KiB, not for a whole request, so that windows of milliseconds see the traffic when it happens.
func (l *Lane) Credit(r *Region, u Use, bytes, span int64) {
	if bytes <= 0 || u >= uses {
		return
	}
	span = min(max(span, 1), bytes, r.size)
	low, best, high := l.account.crossing(r, u, bytes, span)
	f := &factors[u]
	l.moved[0].Add(uint64(low * f.low))
	l.moved[1].Add(uint64(best * f.best))
	l.moved[2].Add(uint64(high * f.high))
	l.asked[u].Add(uint64(bytes))
	l.bytes += bytes
	if u == UseWrite || u == UseUpdate || u == UseCopy || u == UseNonTemporal {
		if r.touched.Load() < r.size {
			r.Touched(span)
			// The kernel clears a page before it is first written. The lines may still be in a cache by then.
			l.moved[2].Add(uint64(span))
		}
	}
}

// crossing returns how many of the bytes miss the last-level cache, at least, probably and at most.
//
// A span that the cache cannot hold misses on each pass. One that it can misses on its first pass, if what the program uses altogether is too much
// for the cache to have kept it, and not at all otherwise. Replacement is not exact and others use the cache too, so between half and twice its
// size either may be true.
func (a *Account) crossing(r *Region, u Use, bytes, span int64) (low, best, high float64) {
	n, once := float64(bytes), float64(span)
	if u == UseRead || u == UseReadRandom {
		share := float64(r.touched.Load()) / float64(r.size)
		n, once = n*share, once*share
	}
	live := a.live.Load()
	at := func(cache int64) float64 {
		switch {
		case span > cache:
			return n
		case live > cache:
			return once
		default:
			return 0
		}
	}
	if low = at(2 * a.llc); r.size <= 2*a.llc {
		low = 0 // it may have been used a moment ago, and still be there
	}
	return low, at(a.llc), at(a.llc / 2)
}

// Begin marks the start of a scan, a stretch of streaming whose speed tells how contended memory is. The calling goroutine stays on its thread
// until End: the processor time of the thread is what is measured, since it counts stalls and leaves out being preempted.
func (l *Lane) Begin() {
	runtime.LockOSThread()
	l.inside.Add(1)
	l.bytes, l.began = 0, threadCPU()
}

// End marks the end of a scan. What was credited since Begin is what it streamed.
func (l *Lane) End() {
	cpu := threadCPU() - l.began
	l.inside.Add(-1)
	runtime.UnlockOSThread()
	if cpu > 0 && l.bytes > 0 {
		l.scanned.Add(uint64(l.bytes))
		l.cpuNS.Add(uint64(cpu))
	}
}

// Totals is what an account holds.
type Totals struct {
	Low, Best, High uint64       // bytes that crossed the bus, the bounds included
	Asked           [uses]uint64 // bytes of the program, by use: what the factors would be fitted to where there is a counter
	Scanned         uint64       // bytes of the program in finished scans
	CPU             time.Duration
	Scans           int // under way
}

// Totals adds up the lanes. It takes no lock and does not allocate.
func (a *Account) Totals() (t Totals) {
	for _, l := range *a.lanes.list.Load() {
		t.Low += l.moved[0].Load()
		t.Best += l.moved[1].Load()
		t.High += l.moved[2].Load()
		for i := range t.Asked {
			t.Asked[i] += l.asked[i].Load()
		}
		t.Scanned += l.scanned.Load()
		t.CPU += time.Duration(l.cpuNS.Load())
		t.Scans += int(l.inside.Load())
	}
	return t
}

// accountedPeriod is the shortest window of an account: a few times what a chunk takes.
const accountedPeriod = 100 * time.Microsecond

// accountedName is what trace and membw_source call it.
const accountedName = "accounted"

// Accounted is the provider that reads an account. Peak is the most that memory can move, in bytes per second, 0 when it is not known: more than 1.05
// of it is cut and marked Overcount.
type Accounted struct {
	Account *Account
	Peak    float64
}

// Name implements Provider.
func (Accounted) Name() string { return accountedName }

// Measures implements Provider.
func (Accounted) Measures() string {
	return "bytes that a program accounts for itself, by what caches leave of them; and bytes per processor second of its scans"
}

// Open implements Provider.
func (p Accounted) Open(m *Machine) (Source, error) {
	if p.Account == nil {
		return nil, &Unusable{Reason: "nobody keeps an account", Remedy: "a program credits its streams to counters.Account"}
	}
	if p.Peak < 0 || math.IsNaN(p.Peak) {
		return nil, errors.New("peak must not be negative")
	}
	return &accounted{
		machine: m, account: p.Account, peak: p.Peak, was: p.Account.Totals(), last: m.Clock.Now(), history: &Knee{},
		capability: Capability{
			Name: accountedName, Kind: Estimate, Scope: ScopeProcess, Directions: "sum", MinPeriod: accountedPeriod,
			Notes: []string{"only what the program accounts for: no garbage collection, no sockets, no neighbours"},
		},
	}, nil
}

type accounted struct {
	machine    *Machine
	account    *Account
	peak       float64
	was        Totals
	last       clock.Instant
	solo       float64 // bytes per processor second, the best window so far
	history    *Knee
	capability Capability
}

// Capability implements Source.
func (s *accounted) Capability() *Capability { return &s.capability }

// Close implements Source.
func (s *accounted) Close() error { return nil }

// overcount is how much above the peak an estimate may be before something is wrong with it.
const overcount = 1.05

// minScanCPU is how much processor time of finished scans a window needs to say something of their speed.
const minScanCPU = 200 * time.Microsecond

// Read implements Source. The pressure is how much slower the program's scans were than in their best window.
func (s *accounted) Read(r *Reading) {
	r.begin(s.machine.Clock.Now(), s.last)
	t := s.account.Totals()
	r.Flags |= Estimated
	r.Total = float64(t.Best - s.was.Best)
	if most := overcount * s.peak * r.Span.Seconds(); s.peak > 0 && r.Total > most {
		r.Total = most
		r.Flags |= Overcount
	}
	if cpu := t.CPU - s.was.CPU; cpu >= minScanCPU {
		speed := perSecond(float64(t.Scanned-s.was.Scanned), cpu)
		s.solo = max(s.solo, speed)
		r.Pressure = 1 - speed/s.solo
	}
	if n := (t.Scans + s.was.Scans) / 2; n > 0 {
		s.history.Add(n, r.Rate())
	}
	s.was, s.last = t, r.At
}

// Knee returns the law of concurrency that the windows so far show.
func (s *accounted) Knee() (perStream, most float64, ok bool) { return s.history.Fit() }
