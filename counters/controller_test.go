//go:build linux

package counters

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/counters/perf"
	"spillway/counters/perf/perftest"
)

// memoryController is a modelled data fabric: channels that move lines at rates of their own, and fewer counters than channels, among which the kernel
// lets the events take turns every 4 ms, moving each on by one.
type memoryController struct {
	rates    []float64 // lines per ms of each channel
	swing    float64   // share by which all rates go up and down
	period   float64   // ms of one swing
	counters int

	ms      int
	true    float64   // lines that moved altogether
	counted []float64 // by each event while it had a counter
	running []int     // ms
}

func (c *memoryController) rate(ms int) float64 {
	return 1 + c.swing*math.Sin(2*math.Pi*float64(ms)/c.period)
}

// step lets a millisecond go by.
func (c *memoryController) step() {
	first := c.ms / 4 % len(c.rates)
	for i, r := range c.rates {
		lines := r * c.rate(c.ms)
		c.true += lines
		if (i-first+len(c.rates))%len(c.rates) < c.counters {
			c.counted[i] += lines
			c.running[i]++
		}
	}
	c.ms++
}

// attach lets a fixture show what the controller counts: channel n is event 0x07 + 0x40 n.
func (c *memoryController) attach(f *fixture) {
	c.counted, c.running = make([]float64, len(c.rates)), make([]int, len(c.rates))
	f.kernel.At = func(a perf.Attr) perftest.Count {
		event := a.Config&0xff | a.Config>>32&0xf<<8
		i := int(event-0x07) / 0x40
		if i >= len(c.rates) {
			return perftest.Count{Enabled: uint64(c.ms) * 1e6, Running: uint64(c.ms) * 1e6}
		}
		return perftest.Count{Value: uint64(c.counted[i]), Enabled: uint64(c.ms) * 1e6, Running: uint64(c.running[i]) * 1e6}
	}
}

// In windows as long as the source asks for, what is estimated from events that take turns is what moved, within a tenth: whatever the channels' shares,
// dead ones among them, and while the traffic swings. A shorter window is marked.
func TestEstimateOfTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cpu(amd, 0x17, 0x31, 16, 1, "")
	f.pmu("amd_df", 8, "0", formatOldDF, nil)
	rapid.Check(t, func(rt *rapid.T) {
		c := &memoryController{
			rates: make([]float64, 8), counters: 4,
			swing: rapid.Float64Range(0, 0.5).Draw(rt, "swing"), period: rapid.Float64Range(100, 2000).Draw(rt, "ms of a swing"),
		}
		for i := range c.rates {
			if !rapid.Bool().Draw(rt, fmt.Sprintf("channel %d is dead", i)) {
				c.rates[i] = rapid.Float64Range(1e4, 3e5).Draw(rt, fmt.Sprintf("lines per ms of channel %d", i))
			}
		}
		c.attach(f)
		s, err := provider(t, "amd-df").Open(f.machine())
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		window := s.Capability().MinPeriod
		for range 5 {
			before := c.true
			for range window / time.Millisecond {
				c.step()
			}
			r := pass(f, s, window)
			want := 64 * (c.true - before)
			if math.Abs(r.Total-want) > 0.1*want+64*8*8 {
				rt.Fatalf("%.4g bytes, %.4g moved (%+.1f %%)", r.Total, want, 100*(r.Total/want-1))
			}
			if r.Flags != Multiplexed {
				rt.Fatalf("flags %v", r.Flags)
			}
		}
		for range 5 {
			c.step()
		}
		if r := pass(f, s, 5*time.Millisecond); r.Flags&Coarse == 0 {
			rt.Fatalf("a window of 5 ms has flags %v", r.Flags)
		}
	})
}

// What reading eight events on four counters without their times gives is half: the mistake that the scaling is there for.
func TestUnscaledWouldBeHalf(t *testing.T) {
	t.Parallel()
	c := &memoryController{rates: []float64{1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5}, counters: 4, period: 1}
	c.attach(newFixture(t))
	for range 320 {
		c.step()
	}
	raw := 0.0
	for _, v := range c.counted {
		raw += v
	}
	if ratio := raw / c.true; math.Abs(ratio-0.5) > 0.01 {
		t.Errorf("%.3f of what moved was counted", ratio)
	}
}
