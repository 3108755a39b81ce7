//go:build linux

package counters

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"spillway/clock"
	"spillway/internal/poll"
)

// Periods of a Cached.
const (
	// minCached is as fast as Svalinn's reader was ever set.
	minCached = 5 * time.Microsecond
	// sleepable is the shortest period that a thread can sleep for: the kernel's timers have a slack of 50 µs.
	sleepable = 100 * time.Microsecond
	// sparing is the least number of processors on which one may be given to a thread that never sleeps.
	sparing = 4
)

// Cached keeps the bytes that a source has seen in memory, refreshed by one thread. Reading it takes no lock and no system call: it is what a
// server's memory semaphore looks at while requests come and go.
type Cached struct {
	source Source
	clock  clock.Clock
	period time.Duration
	poller *poll.Poller
	done   chan struct{}
	stop   atomic.Bool

	// version is odd while the thread changes what follows, so that readers see values that belong together.
	_       [64]byte
	version atomic.Uint64
	bytes   atomic.Uint64
	at      atomic.Int64
	flags   atomic.Uint32
	_       [64]byte
}

// CachedConfig says how a value is kept fresh.
type CachedConfig struct {
	Source Source
	Clock  clock.Clock
	// Period is how old the value may become. It is stretched to what the source can do, and to 100 µs where no processor can be spared for a thread
	// that never sleeps.
	Period time.Duration
}

// NewCached starts the thread. Period says what the period has become. Close stops it; the source stays the caller's.
func NewCached(c CachedConfig) (*Cached, error) {
	if c.Source == nil || c.Clock == nil {
		return nil, errors.New("counters: a cached value needs a source and a clock")
	}
	if c.Source.Capability().Kind == Pressure {
		return nil, fmt.Errorf("%s tells how contended memory is and knows no bytes; choose a source that counts or accounts for them", c.Source.Capability().Name)
	}
	if c.Period < minCached {
		return nil, fmt.Errorf("a period of %v; the shortest is %v", c.Period, minCached)
	}
	k := &Cached{source: c.Source, clock: c.Clock, period: max(c.Period, c.Source.Capability().MinPeriod), done: make(chan struct{})}
	if k.period < sleepable && runtime.GOMAXPROCS(0) < sparing {
		k.period = sleepable
	}
	p, err := poll.New()
	if err != nil {
		return nil, err
	}
	k.poller = p
	k.at.Store(-1)
	go k.run()
	return k, nil
}

// Period returns how often the value is refreshed. A bandit's period should be ten times that, or more.
func (k *Cached) Period() time.Duration { return k.period }

// Load returns the bytes that have moved since the value was first kept, when that was known, and the flags of the last window. ok is false while
// nothing is known. A window that was missing adds nothing, and leaves at where it was.
func (k *Cached) Load() (bytes uint64, at clock.Instant, flags Flags, ok bool) {
	for {
		v := k.version.Load()
		bytes, at, flags = k.bytes.Load(), clock.Instant(k.at.Load()), Flags(k.flags.Load())
		if v&1 == 0 && k.version.Load() == v {
			return bytes, at, flags, at >= 0
		}
	}
}

func (k *Cached) publish(bytes uint64, at clock.Instant, flags Flags) {
	k.version.Add(1)
	k.bytes.Store(bytes)
	if flags&Missing == 0 {
		k.at.Store(int64(at))
	}
	k.flags.Store(uint32(flags))
	k.version.Add(1)
}

// Close stops the thread.
func (k *Cached) Close() error {
	k.stop.Store(true)
	err := k.poller.Wake()
	<-k.done
	return errors.Join(err, k.poller.Close())
}

func (k *Cached) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(k.done)
	total := 0.0
	var r Reading
	for next := k.clock.Now(); !k.stop.Load(); {
		k.source.Read(&r)
		if !math.IsNaN(r.Total) {
			total += r.Total
		} else {
			r.Flags |= Missing
		}
		k.publish(uint64(total), r.At, r.Flags)
		next = max(next.Add(k.period), r.At)
		if !k.await(next) {
			return
		}
	}
}

// await returns when it is next, or false when waiting failed. Where the period is too short to sleep it looks at the clock until then.
func (k *Cached) await(next clock.Instant) bool {
	for rest := next.Sub(k.clock.Now()); rest > 0 && !k.stop.Load(); rest = next.Sub(k.clock.Now()) {
		if k.period < sleepable {
			continue
		}
		if _, _, err := k.poller.Wait(nil, rest); err != nil {
			return false
		}
	}
	return true
}
