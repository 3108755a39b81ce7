//go:build linux

package perf_test

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spillway/counters/perf"
	"spillway/counters/sysfs"
)

// tries is how often a measurement is repeated that a busy machine may disturb.
const tries = 4

// open opens one event on this machine, or skips the test with the reason.
func open(t *testing.T, a perf.Attr) *perf.Group {
	t.Helper()
	g, err := perf.Open(perf.Host{}, []perf.Attr{a}, 64)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("this machine does not let us count: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// The time stamp counter of the msr PMU has a known rate, so it is a test of the whole path: sysfs, encoding, opening, reading. What it counted in a
// window must be, to half a percent, what the register itself did, by the rate that the kernel found.
func TestTimeStampCounter(t *testing.T) {
	var root sysfs.Root
	pmu, err := root.PMU("msr")
	if err != nil {
		t.Skipf("this machine has no msr PMU: %v", err)
	}
	terms, _, _, ok := pmu.Event("tsc")
	if !ok {
		t.Skip("its msr PMU has no event tsc")
	}
	c, err := pmu.Encode(terms)
	if err != nil {
		t.Fatal(err)
	}
	hz := tscRate(t, root)
	g := open(t, perf.Attr{Type: pmu.Type, Config: c.Config, Config1: c.Config1, Config2: c.Config2})
	dst := make([]float64, 1)
	for try := 1; ; try++ {
		if _, err := g.Read(dst); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); {
			runtime.Gosched()
		}
		w, err := g.Read(dst)
		if err != nil {
			t.Fatal(err)
		}
		got := dst[0] / (float64(w.Enabled) / 1e9)
		off := got/hz - 1
		t.Logf("%.0f ticks in %d ns of counting: %.4f GHz, the kernel says %.4f (%+.3f %%)", dst[0], w.Enabled, got/1e9, hz/1e9, 100*off)
		if math.Abs(off) < 0.005 && w.Flags == 0 {
			return
		}
		if try == tries {
			t.Fatalf("the time stamp counter runs at %.4f GHz by perf and at %.4f by the kernel, flags %b", got/1e9, hz/1e9, w.Flags)
		}
	}
}

// tscRate returns what the kernel says of the rate of the time stamp counter: BogoMIPS are twice its MHz where it is what the kernel keeps time by.
func tscRate(t *testing.T, root sysfs.Root) float64 {
	t.Helper()
	mips := root.BogoMIPS()
	if mips == 0 {
		t.Skip("the kernel does not say how fast the time stamp counter is")
	}
	return mips / 2 * 1e6
}

func TestSoftwareEvents(t *testing.T) {
	g, err := perf.Open(perf.Host{}, []perf.Attr{
		{Type: perf.TypeSoftware, Config: unix.PERF_COUNT_SW_CPU_CLOCK},
		{Type: perf.TypeSoftware, Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
		{Type: perf.TypeSoftware, Config: unix.PERF_COUNT_SW_PAGE_FAULTS},
	}, 64)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("this machine does not let us count: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dst := make([]float64, 3)
	for range 2 {
		if _, err := g.Read(dst); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); {
			runtime.Gosched()
		}
	}
	w, err := g.Read(dst)
	if err != nil || w.Flags&perf.None != 0 {
		t.Fatalf("%v, flags %b", err, w.Flags)
	}
	// The clock event counts ns of its processor.
	if ratio := dst[0] / float64(w.Enabled); ratio < 0.5 || ratio > 1.5 {
		t.Errorf("the processor's clock counted %v of %d ns", dst[0], w.Enabled)
	}
}

// An event of a type that is not there is ENOENT, which is what hardware events are on a machine without a PMU.
func TestUnknownType(t *testing.T) {
	_, err := perf.Open(perf.Host{}, []perf.Attr{{Type: math.MaxUint32}}, 64)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("this machine does not let us count: %v", err)
	}
	if !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v, want ENOENT", err)
	}
}
