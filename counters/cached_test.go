//go:build linux

package counters

import (
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spillway/clock"
)

// stepping is a source whose bytes are always a thousandth of its instant, so that readers can tell values that do not belong together.
type stepping struct {
	at      clock.Instant
	missing atomic.Bool
	kind    Kind
	period  time.Duration
}

func (s *stepping) Capability() *Capability {
	return &Capability{Name: "stepping", Kind: s.kind, MinPeriod: s.period}
}
func (s *stepping) Close() error { return nil }
func (s *stepping) Read(r *Reading) {
	before := s.at
	s.at += 1000
	r.begin(s.at, before)
	r.Total = 1
	if s.missing.Load() {
		r.Total, r.Flags = math.NaN(), Missing
	}
}

// Readers on any number of threads see bytes and instant that belong together, and neither ever goes back.
func TestCachedIsWhole(t *testing.T) {
	t.Parallel()
	k, err := NewCached(CachedConfig{Source: &stepping{kind: Counted}, Clock: clock.NewReal(), Period: 5 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 3)
	for range cap(done) {
		go func() {
			var last uint64
			for last < 200 {
				bytes, at, _, ok := k.Load()
				if !ok {
					runtime.Gosched()
					continue
				}
				if clock.Instant(bytes)*1000 != at || bytes < last {
					done <- "torn"
					return
				}
				last = bytes
			}
			done <- ""
		}()
	}
	for range cap(done) {
		if got := <-done; got != "" {
			t.Error(got)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// A window that is missing adds nothing, and does not make the value look fresh.
func TestCachedWithoutNews(t *testing.T) {
	t.Parallel()
	src := &stepping{kind: Counted}
	src.missing.Store(true)
	k, err := NewCached(CachedConfig{Source: src, Clock: clock.NewReal(), Period: 200 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, _, _, ok := k.Load(); ok {
		t.Error("something is known")
	}
	src.missing.Store(false)
	for {
		bytes, at, flags, ok := k.Load()
		if ok {
			if bytes == 0 || at <= 0 || flags != 0 {
				t.Errorf("%d bytes at %v, %v", bytes, at, flags)
			}
			break
		}
		runtime.Gosched()
	}
	src.missing.Store(true)
	for {
		if _, _, flags, ok := k.Load(); ok && flags == Missing {
			break
		}
		runtime.Gosched()
	}
	b1, at1, _, _ := k.Load()
	b2, at2, _, ok := k.Load()
	if !ok || b1 != b2 || at1 != at2 {
		t.Errorf("without news: %d at %v, then %d at %v", b1, at1, b2, at2)
	}
}

func TestCachedPeriod(t *testing.T) {
	t.Parallel()
	start := func(p, source time.Duration) time.Duration {
		k, err := NewCached(CachedConfig{Source: &stepping{kind: Counted, period: source}, Clock: clock.NewReal(), Period: p})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		return k.Period()
	}
	if got := start(time.Millisecond, 80*time.Millisecond); got != 80*time.Millisecond {
		t.Errorf("faster than its source: %v", got)
	}
	want := 20 * time.Microsecond
	if runtime.GOMAXPROCS(0) < sparing {
		want = sleepable // nobody can be spared to look at the clock all the time
	}
	if got := start(20*time.Microsecond, 0); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	for want, c := range map[string]CachedConfig{
		"shortest is 5":    {Source: &stepping{kind: Counted}, Clock: clock.NewReal(), Period: time.Microsecond},
		"needs a source":   {Clock: clock.NewReal(), Period: time.Second},
		"and knows no byt": {Source: &stepping{kind: Pressure}, Clock: clock.NewReal(), Period: time.Second},
	} {
		if _, err := NewCached(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestLoadAllocatesNothing(t *testing.T) {
	k, err := NewCached(CachedConfig{Source: &stepping{kind: Counted}, Clock: clock.NewReal(), Period: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if n := testing.AllocsPerRun(100, func() { k.Load() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
