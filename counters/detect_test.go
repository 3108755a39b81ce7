//go:build linux

package counters

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spillway/counters/perf"
	"spillway/counters/perf/perftest"
)

// traffic is a machine on which our stream reads 10 GB/s when it runs, beside what others do.
type traffic struct {
	*fixture
	bytes  float64 // that moved so far
	others float64 // bytes per second, all the time
}

const streamRate = 10e9

func newTraffic(f *fixture, others float64) *traffic { return &traffic{fixture: f, others: others} }

// config returns what Detect needs; counts show share of what moves, on each event the same.
func (m *traffic) config(events int, share float64) (*Machine, Config) {
	m.kernel.At = func(perf.Attr) perftest.Count {
		return perftest.Count{Value: uint64(m.bytes * share / 64 / float64(events)), Enabled: uint64(m.now), Running: uint64(m.now)}
	}
	machine := m.machine()
	machine.Wait = func(_ context.Context, d time.Duration) { m.pass(d, 0) }
	return machine, Config{Run: func(_ context.Context, d time.Duration) int64 {
		m.pass(d, streamRate)
		return int64(streamRate * d.Seconds())
	}}
}

func (m *traffic) pass(d time.Duration, rate float64) {
	m.now = m.now.Add(d)
	m.bytes += (rate + m.others) * d.Seconds()
}

func TestDetectHoldsCountersAgainstOurStream(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		share   float64 // that the counters show of what moves
		others  float64
		usable  bool
		ratio   float64
		text    string // of hint or remedy
		calibre Flags
	}{
		{"right", 1, 0, true, 1, "", 0},
		{"right beside others", 1, 5e9, true, 1, "", 0},
		{"half", 0.5, 0, true, 0.5, "too few counters, one of two subchannels", Uncalibrated},
		{"twice", 2, 0, true, 2, "memory domains", Uncalibrated},
		{"five of six channels", 5.0 / 7, 0, true, 5.0 / 7, "channels are missing", Uncalibrated},
		{"scale of 4 B instead of 64", 1.0 / 16, 0, false, 1.0 / 16, "scale in sysfs is 4 B", 0},
		{"silent zeros", 0, 0, false, 0, "dead", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newTraffic(skx(t, 6), tt.others)
			machine, c := m.config(24, tt.share)
			c.Force = "intel-imc"
			d, err := Detect(context.Background(), machine, c)
			cand := d.Candidates[0]
			if cand.Usable != tt.usable || math.Abs(cand.Ratio-tt.ratio) > 0.01 {
				t.Fatalf("usable %v, ratio %v: %s; %s", cand.Usable, cand.Ratio, cand.Reason, cand.Remedy)
			}
			if got := strings.Join(append(cand.Hints, cand.Remedy), " "); !strings.Contains(got, tt.text) || tt.text == "" && got != "" {
				t.Errorf("says %q, want %q", got, tt.text)
			}
			if !tt.usable {
				if err == nil || d.Source != nil {
					t.Errorf("a forced provider that does not count gives %v", err)
				}
				return
			}
			defer d.Source.Close()
			var r Reading
			m.pass(time.Second, 0)
			d.Source.Read(&r)
			if r.Flags&Uncalibrated != tt.calibre {
				t.Errorf("flags %v", r.Flags)
			}
		})
	}
}

// In a virtual machine counters may open and stay silent; then the source without hardware is taken, and the table says why not the other.
func TestDetectFallsThroughAloud(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cpu(intel, 6, 0x55, 4, 1, "hypervisor")
	imcs(f, 2, "0")
	f.pmu("cpu", 4, "", nil, nil)
	machine, c := newTraffic(f, 0).config(1, 0)
	c.Account = NewAccount(1 << 20)
	d, err := Detect(context.Background(), machine, c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Source.Close()
	if d.Chosen != "accounted" {
		t.Errorf("chose %s", d.Chosen)
	}
	for _, cand := range d.Candidates {
		if cand.Usable == (cand.Reason != "") {
			t.Errorf("%s: usable %v, reason %q", cand.Name, cand.Usable, cand.Reason)
		}
	}
	imc := d.Candidates[0]
	if imc.Name != "intel-imc" || !strings.Contains(imc.Reason, "it opens and does not count") || !strings.Contains(imc.Remedy, "virtual machine") {
		t.Errorf("%s: %s; %s", imc.Name, imc.Reason, imc.Remedy)
	}
	if f.kernel.Left() != 0 {
		t.Errorf("%d events are left open", f.kernel.Left())
	}
}

// The first that works is taken, in order of belief, and what stands behind it is tried only for a table.
func TestDetectInOrder(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		f := skx(t, 1)
		f.pmu("cpu", 4, "", nil, nil)
		machine, c := newTraffic(f, 0).config(4, 1)
		c.All, c.Account = all, NewAccount(1<<20)
		d, err := Detect(context.Background(), machine, c)
		if err != nil {
			t.Fatal(err)
		}
		if d.Chosen != "intel-imc" || (len(d.Candidates) > 1) != all {
			t.Errorf("all %v: chose %s of %d", all, d.Chosen, len(d.Candidates))
		}
		_ = d.Source.Close()
		if f.kernel.Left() != 0 {
			t.Errorf("all %v: %d events are left open", all, f.kernel.Left())
		}
	}
}

// Where two sources count, the second is read once a second beside the first.
func TestSecondSource(t *testing.T) {
	t.Parallel()
	f := skx(t, 1)
	f.pmu("uncore_imc_free_running_0", 40, "0", formatIMC, []string{"read=event=0xff,umask=0x20" + mib, "write=event=0xff,umask=0x21" + mib})
	machine, c := newTraffic(f, 0).config(4, 1)
	in, err := Instrument(context.Background(), machine, c)
	if err != nil {
		t.Fatal(err)
	}
	if in.Detection.Chosen != "intel-imc" || in.Sources[1].Capability().Name != "intel-imc-free" || in.Sources[1].Capability().MinPeriod != time.Second {
		t.Errorf("chose %s, beside it %+v", in.Detection.Chosen, in.Sources[1].Capability())
	}
	s, err := NewSampler(SamplerConfig{Machine: machine, Sources: in.Sources})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range s.Columns() {
		names = append(names, c.Name)
	}
	// The first is on two sockets.
	for _, want := range []string{"membw", "membw_socket0", "membw_socket1", "intel_imc_free_membw"} {
		if !slices.Contains(names, want) {
			t.Errorf("no series %s in %v", want, names)
		}
	}
	if table := in.Table(machine); table.Chosen != "intel-imc" || len(table.Providers) < 2 || len(table.Providers[0].Events) != 4 {
		t.Errorf("%+v", table)
	}
	if err := in.Close(); err != nil || f.kernel.Left() != 0 {
		t.Errorf("%v, and %d events are left open", err, f.kernel.Left())
	}
}

func TestForcedProvider(t *testing.T) {
	t.Parallel()
	f := skx(t, 1)
	f.kernel.Refuse = func(perf.Attr) error { return unix.EACCES }
	machine, c := newTraffic(f, 0).config(4, 1)
	c.Account, c.Force = NewAccount(1<<20), "intel-imc"
	d, err := Detect(context.Background(), machine, c)
	if !errors.Is(err, unix.EACCES) && (err == nil || !strings.Contains(err.Error(), "provider intel-imc: ") || !strings.Contains(err.Error(), "cap_perfmon")) {
		t.Errorf("%v", err)
	}
	if d.Source != nil {
		t.Error("something else took its place")
	}
	c.Force = "intel-imk"
	if _, err := Detect(context.Background(), machine, c); err == nil || !strings.Contains(err.Error(), `no provider "intel-imk"; there are intel-imc, amd-umc`) {
		t.Errorf("%v", err)
	}
}

func TestDetectIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	f := skx(t, 1)
	machine, c := newTraffic(f, 0).config(4, 1)
	machine.Wait = func(context.Context, time.Duration) { cancel() }
	d, err := Detect(ctx, machine, c)
	if !errors.Is(err, context.Canceled) || d.Source != nil || f.kernel.Left() != 0 {
		t.Errorf("%v, source %v, %d events are left open", err, d.Source, f.kernel.Left())
	}
}

// More than the memory can move is marked.
func TestOvercount(t *testing.T) {
	t.Parallel()
	m := newTraffic(skx(t, 1), 0)
	machine, c := m.config(4, 1)
	c.Peak = 20e9
	d, err := Detect(context.Background(), machine, c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Source.Close()
	for rate, want := range map[float64]Flags{20e9: 0, 22e9: Overcount} {
		var r Reading
		m.pass(time.Second, rate)
		d.Source.Read(&r)
		if r.Flags != want || math.Abs(r.Rate()/rate-1) > 0.01 {
			t.Errorf("%.3g of %.3g: %v", r.Rate(), rate, r.Flags)
		}
	}
}

// The bus of a modelled machine is a provider of the caller's, and stands before all others.
func TestModelledBus(t *testing.T) {
	t.Parallel()
	f := skx(t, 1)
	moved, known := uint64(1000), true
	machine, c := newTraffic(f, 0).config(4, 1)
	c.Extra = []Provider{Func{Label: "model", What: "the bus of a modelled machine", Of: ScopeModel, Bytes: func() (uint64, bool) { return moved, known }}}
	d, err := Detect(context.Background(), machine, c)
	if err != nil || d.Chosen != "model" || len(f.kernel.Opened) != 0 {
		t.Fatalf("%v, chose %s", err, d.Chosen)
	}
	read := func() Reading { return pass(f, d.Source, time.Millisecond) }
	moved = 5000
	if r := read(); r.Total != 4000 || r.Flags != 0 || r.Rate() != 4e6 {
		t.Errorf("%+v", r)
	}
	moved = 10
	if r := read(); r.Flags != Missing|Reset || !math.IsNaN(r.Total) {
		t.Errorf("after it began again: %+v", r)
	}
	known = false
	if r := read(); r.Flags != Missing {
		t.Errorf("while it is not known: %+v", r)
	}
	if _, err := (Func{Label: "model"}).Open(machine); err == nil {
		t.Error("without a function")
	}
}
