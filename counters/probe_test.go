//go:build linux

package counters

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// loadedMemory is a modelled memory as a probe sees it: loads queue at its controller, bursts are noisy, and some are disturbed.
type loadedMemory struct {
	load      float64 // what is asked of it, as a share of the most it can do
	noise     float64
	disturbed float64
	rng       *rand.Rand
}

// latency returns the ns of a load. It follows the curve that was published for a Xeon Silver 4110 (1.2 times the quiet latency at half of the peak, 1.6
// at the peak); what is asked beyond the peak waits for its turn.
func (m *loadedMemory) latency() float64 {
	served := min(m.load, 1)
	ns := 82 * (1 + 0.38*served + 0.22*math.Pow(served, 6)) * max(m.load, 1)
	return ns * (1 + m.noise*m.rng.NormFloat64())
}

func (m *loadedMemory) chase() (float64, bool) {
	return m.latency(), m.rng.Float64() >= m.disturbed
}

// stream is as fast as its loads return.
func (m *loadedMemory) stream() (float64, bool) {
	return 9e11 / m.latency(), m.rng.Float64() >= m.disturbed
}

func probes(f *fixture, m *loadedMemory) map[string]*probe {
	self, chase := selfProbe(f.machine()), latencyProbe(f.machine())
	self.burst, chase.burst = m.stream, m.chase
	return map[string]*probe{"self-probe": self, "loaded-latency": chase}
}

// What the probes call saturated is, and what they do not is not, when memory queues as the reference's curve does: hits and false alarms are counted.
func TestProbesTellSaturation(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"self-probe", "loaded-latency"} {
		f := newFixture(t)
		m := &loadedMemory{noise: 0.02, disturbed: 0.1, rng: rand.New(rand.NewPCG(1, 2))}
		p := probes(f, m)[name]
		if err := p.calibrate(); err != nil {
			t.Fatal(err)
		}
		var r Reading
		var hits, alarms, high, low int
		for range 4000 {
			// Saturation comes and goes in stretches, as load does.
			if m.rng.Float64() < 0.02 {
				m.load = m.rng.Float64() * 0.6
				if m.rng.Float64() < 0.5 {
					m.load = 1.3 + m.rng.Float64()
				}
			}
			f.now += 1e8
			p.Read(&r)
			switch {
			case m.load > 1:
				high++
				if r.Saturated {
					hits++
				}
			case m.load <= 0.6:
				low++
				if r.Saturated {
					alarms++
				}
			}
		}
		hit, alarm := float64(hits)/float64(high), float64(alarms)/float64(low)
		t.Logf("%s: %.1f %% of saturation is seen, %.1f %% of the rest is called so", name, 100*hit, 100*alarm)
		if hit < 0.9 || alarm > 0.1 {
			t.Errorf("%s: %.3f seen, %.3f false alarms", name, hit, alarm)
		}
	}
}

func TestProbePressure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := &loadedMemory{rng: rand.New(rand.NewPCG(1, 2))}
	for name, p := range probes(f, m) {
		m.load, m.disturbed = 0, 0
		if err := p.calibrate(); err != nil {
			t.Fatal(err)
		}
		last := -1.0
		for _, load := range []float64{0, 0.3, 0.6, 0.9, 1.1} {
			m.load = load
			r := pass(f, p, 1e8)
			if !(r.Pressure > last) || r.Pressure < 0 || r.Pressure > 1 || r.Flags != Estimated || !math.IsNaN(r.Total) {
				t.Errorf("%s at load %v: %+v", name, load, r)
			}
			last = r.Pressure
		}
		// A burst that was disturbed is no news.
		m.disturbed = 1
		if r := pass(f, p, 1e8); r.Flags != Estimated|Missing || !math.IsNaN(r.Pressure) {
			t.Errorf("%s disturbed: %+v", name, r)
		}
		var u *Unusable
		if err := p.calibrate(); !errors.As(err, &u) {
			t.Errorf("%s calibrates to %v", name, err)
		}
	}
}

func TestHysteresis(t *testing.T) {
	t.Parallel()
	h := Hysteresis{Enter: 0.4, Leave: 0.25}
	for i, s := range []struct {
		pressure float64
		want     bool
	}{{0.3, false}, {0.4, true}, {0.3, true}, {math.NaN(), true}, {0.25, true}, {0.24, false}, {0.39, false}, {math.NaN(), false}} {
		if got := h.Update(s.pressure); got != s.want {
			t.Errorf("step %d, %v: %v", i, s.pressure, got)
		}
	}
}

// tries is how often a measurement is repeated that a busy machine may disturb.
const tries = 4

// A walk through memory takes longer than one that the first cache holds. The order of the two is what is tested, not how long they take.
func TestChaseReachesMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	median := func(size int64) float64 {
		c, err := NewChase(size)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range size / 64 / (burstLoads) { // once around, so that a small walk is in its cache
			c.follow(burstLoads)
		}
		best := math.Inf(1)
		for range 20 {
			if ns, ok := c.Burst(); ok {
				best = min(best, ns)
			}
		}
		return best
	}
	for try := 1; ; try++ {
		near, far := median(16<<10), median(64<<20)
		t.Logf("16 KiB: %.1f ns a load, 64 MiB: %.1f ns", near, far)
		if far > 3*near && !math.IsInf(far, 1) {
			return
		}
		if try == tries {
			t.Fatalf("a load takes %v ns in 16 KiB and %v ns in 64 MiB", near, far)
		}
	}
}

// The chain is one cycle through all lines: nothing of it is left out, so no part of it stays in a cache.
func TestChaseIsOneCycle(t *testing.T) {
	t.Parallel()
	c, err := NewChase(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lines := int(c.memory.Bytes() / 64)
	seen := map[uint64]bool{}
	for range lines {
		seen[c.at] = true
		c.follow(1)
	}
	if len(seen) != lines || c.at != 0 {
		t.Errorf("%d of %d lines before it is at %d", len(seen), lines, c.at)
	}
}

func TestStreamReadsAllOfIt(t *testing.T) {
	t.Parallel()
	m, err := NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	words := uint64(m.Bytes() / 8)
	s := NewStream(m)
	for _, part := range []int64{8, 4096, 1<<20 - 4104, 1 << 20} { // twice, with an odd cut
		s.Read(part)
	}
	if want := 2 * (words * (words - 1) / 2); s.sum != want || s.next != 0 {
		t.Errorf("the words sum to %d, want %d", s.sum, want)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
