//go:build linux

package counters

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spillway/counters/perf"
	"spillway/counters/perf/perftest"
)

// skx is a machine with two sockets and so many channels on each.
func skx(t *testing.T, channels int) *fixture {
	f := newFixture(t)
	f.cpu(intel, 6, 0x55, 32, 2, "")
	imcs(f, channels, "0,16")
	return f
}

func opened(t *testing.T, f *fixture, name string) Source {
	t.Helper()
	s, err := provider(t, name).Open(f.machine())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// pass lets time go by and reads.
func pass(f *fixture, s Source, d time.Duration) (r Reading) {
	f.now = f.now.Add(d)
	s.Read(&r)
	return r
}

func TestReading(t *testing.T) {
	t.Parallel()
	f := skx(t, 6)
	f.kernel.At = func(a perf.Attr) perftest.Count {
		c := perftest.Count{Enabled: uint64(f.now), Running: uint64(f.now)}
		socket := uint64(a.CPU / 16)
		switch {
		case a.Type == 23: // a dead channel
		case a.Config == 0x0304: // a read a ns on socket 0, three on socket 1
			c.Value = uint64(f.now) * (1 + 2*socket)
		default:
			c.Value = uint64(f.now) / 2
		}
		return c
	}
	s := opened(t, f, "intel-imc")
	c := s.Capability()
	if c.Directions != "read, write" || len(c.Sockets) != 2 || c.Kind != Counted || c.Scope != ScopeHost {
		t.Errorf("%+v", c)
	}
	r := pass(f, s, 10*time.Millisecond)
	const ns = 1e7
	// Five channels live; a dead one is a zero that is known, and nothing is made up for it.
	want := Reading{Read: 5 * (1 + 3) * 64 * ns, Write: 2 * 5 * 64 * ns / 2}
	if r.Read != want.Read || r.Write != want.Write || r.Total != want.Read+want.Write || r.Flags != 0 || r.Span != 10*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.Sockets[0] != 5*1.5*64*ns || r.Sockets[1] != 5*3.5*64*ns {
		t.Errorf("by socket %v", r.Sockets)
	}
	if !math.IsNaN(r.Pressure) {
		t.Errorf("a pressure of %v", r.Pressure)
	}
}

// A channel that a kernel shows although the machine has none may return anything.
func TestPhantomChannel(t *testing.T) {
	t.Parallel()
	f := skx(t, 2)
	f.kernel.At = func(a perf.Attr) perftest.Count {
		c := perftest.Count{Value: uint64(f.now), Enabled: uint64(f.now), Running: uint64(f.now)}
		if a.Type == 21 && f.now > 0 {
			c.Value = 18_000_000_000_000_000_000
		}
		return c
	}
	r := pass(f, opened(t, f, "intel-imc"), 10*time.Millisecond)
	if r.Total != 2*2*64*1e7 || r.Flags != Partial {
		t.Errorf("%v, %v", r.Total, r.Flags)
	}
}

// Somebody else holds the counters: the event opens, and never runs. That is no traffic known, not no traffic.
func TestNeverScheduled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cpu(arm, 0, 0, 48, 1, "")
	f.pmu("hisi_sccl1_ddrc0", 70, "0", []string{"event=config:0-4"}, []string{"flux_wr=config=0x00", "flux_rd=config=0x01"})
	taken := uint64(0) // its register
	f.kernel.At = func(a perf.Attr) perftest.Count {
		c := perftest.Count{Value: uint64(f.now), Enabled: uint64(f.now), Running: uint64(f.now)}
		if a.Config == taken {
			c.Value, c.Running = 0, 0
		}
		return c
	}
	s := opened(t, f, "hisi-ddrc")
	if r := pass(f, s, time.Millisecond); r.Flags != Partial || r.Total != 32e6 {
		t.Errorf("one of two registers is taken: %v, %v", r.Total, r.Flags)
	}
	f.kernel.At = func(perf.Attr) perftest.Count { return perftest.Count{Enabled: uint64(f.now)} }
	pass(f, s, time.Millisecond)
	if r := pass(f, s, time.Millisecond); r.Flags != Missing || !math.IsNaN(r.Total) || !math.IsNaN(r.Rate()) {
		t.Errorf("both are taken: %v, %v", r.Total, r.Flags)
	}
}

// Pinned events that find no counter free are opened again so that they take turns, and are flagged.
func TestPinnedFallsBack(t *testing.T) {
	t.Parallel()
	f := skx(t, 1)
	f.kernel.Fail = func(a perf.Attr, _ []byte) (int, error, bool) { return 0, nil, a.Pinned }
	f.kernel.At = func(perf.Attr) perftest.Count {
		return perftest.Count{Value: uint64(f.now) / 4, Enabled: uint64(f.now), Running: uint64(f.now) / 4}
	}
	s := opened(t, f, "intel-imc")
	r := pass(f, s, 200*time.Millisecond)
	if r.Flags != Multiplexed || r.Total != 4*64*2e8 {
		t.Errorf("%v, %v", r.Total, r.Flags)
	}
	if r := pass(f, s, 10*time.Millisecond); r.Flags != Multiplexed|Coarse {
		t.Errorf("10 ms of four turns of 4 ms: %v", r.Flags)
	}
	if !f.kernel.Opened[0].Pinned || f.kernel.Opened[len(f.kernel.Opened)-1].Pinned || f.kernel.Left() != 4 {
		t.Errorf("%d events are open", f.kernel.Left())
	}
}

// The processor that a unit was counted on goes offline; the kernel moves the unit to another one of the socket.
func TestHotUnplug(t *testing.T) {
	t.Parallel()
	f := skx(t, 1)
	gone := -1
	f.kernel.Fail = func(a perf.Attr, _ []byte) (int, error, bool) { return -1, unix.ENODEV, a.CPU == gone }
	s := opened(t, f, "intel-imc")
	pass(f, s, 10*time.Millisecond)
	gone = 16
	f.file(deviceDir+"uncore_imc_0/cpumask", "0,17")
	if r := pass(f, s, 10*time.Millisecond); r.Flags != Partial || r.Total != 2*64*1e7 {
		t.Errorf("while it is gone: %v, %v", r.Total, r.Flags)
	}
	pass(f, s, reopenAfter) // opens it again
	pass(f, s, 10*time.Millisecond)
	if r := pass(f, s, 10*time.Millisecond); r.Flags != 0 || r.Total != 4*64*1e7 {
		t.Errorf("after it moved: %v, %v", r.Total, r.Flags)
	}
	if last := f.kernel.Opened[len(f.kernel.Opened)-1]; last.CPU != 17 || f.kernel.Left() != 4 {
		t.Errorf("it is counted on %d, and %d events are open", last.CPU, f.kernel.Left())
	}
}

// AMD's memory controllers tell how busy their data bus is: a saturation that needs no peak.
func TestBusyBus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cpu(amd, 0x19, 0x11, 96, 1, "perfmon_v2")
	f.pmu("amd_umc_0", 30, "0", formatUMC, nil)
	f.kernel.At = func(a perf.Attr) perftest.Count {
		c := perftest.Count{Enabled: uint64(f.now), Running: uint64(f.now)}
		switch a.Config {
		case 0x00: // clocks
			c.Value = uint64(f.now) * 2
		case 0x14: // slots of the data bus, two a clock
			c.Value = uint64(f.now) * 3
		default:
			c.Value = uint64(f.now)
		}
		return c
	}
	s := opened(t, f, "amd-umc")
	if r := pass(f, s, time.Millisecond); r.Pressure != 0.75 || r.Total != 2*64*1e6 {
		t.Errorf("%+v", r)
	}
	// A unit without room for them still counts bytes.
	f.kernel.Refuse = func(a perf.Attr) error {
		if a.Config == 0x14 {
			return unix.EINVAL
		}
		return nil
	}
	s = opened(t, f, "amd-umc")
	if r := pass(f, s, time.Millisecond); !math.IsNaN(r.Pressure) || r.Total != 2*64*1e6 || !strings.Contains(strings.Join(s.Capability().Notes, ""), "no pressure") {
		t.Errorf("%+v, %v", r, s.Capability().Notes)
	}
}

func TestWhyNot(t *testing.T) {
	t.Parallel()
	tests := []struct {
		errno          unix.Errno
		reason, remedy string
	}{
		{unix.EACCES, "not permitted, kernel.perf_event_paranoid is 4 (EACCES)", "setcap cap_perfmon=ep"},
		{unix.EPERM, "(EPERM)", "sysctl kernel.perf_event_paranoid=0"},
		{unix.ENOENT, "the kernel has no such event (ENOENT)", "newer kernel"},
		{unix.EINVAL, "as it is encoded (EINVAL)", "selftest"},
		{unix.ENODEV, "offline", "online"},
		{unix.EMFILE, "too many open files", "ulimit -n"},
		{unix.EBUSY, "taken (EBUSY)", "PCM"},
		{unix.ENOSYS, "seccomp", "seccomp"},
		{unix.EOPNOTSUPP, "does not count in this way", ""},
		{unix.E2BIG, "too old", "newer kernel"},
		{unix.EIO, "(EIO)", ""},
	}
	for _, tt := range tests {
		f := skx(t, 1)
		f.file("/proc/sys/kernel/perf_event_paranoid", "4")
		f.kernel.Refuse = func(perf.Attr) error { return tt.errno }
		_, err := provider(t, "intel-imc").Open(f.machine())
		var u *Unusable
		if !errors.As(err, &u) || !errors.Is(err, tt.errno) {
			t.Fatalf("%v: %v", tt.errno, err)
		}
		if !strings.Contains(u.Reason, "uncore_imc_0 on CPU 0: ") || !strings.Contains(u.Reason, tt.reason) || !strings.Contains(u.Remedy, tt.remedy) {
			t.Errorf("%v: %q; %q\nwant %q; %q", tt.errno, u.Reason, u.Remedy, tt.reason, tt.remedy)
		}
	}
	f := newFixture(t)
	f.cpu(intel, 6, 0x55, 2, 1, "hypervisor")
	imcs(f, 1, "0")
	f.kernel.Refuse = func(perf.Attr) error { return unix.ENOENT }
	if _, err := provider(t, "intel-imc").Open(f.machine()); err == nil || !strings.Contains(err.Error(), "virtual machine") {
		t.Errorf("ENOENT in a virtual machine: %v", err)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	f := skx(t, 6)
	s := opened(t, f, "intel-imc")
	var r Reading
	if n := testing.AllocsPerRun(100, func() { f.now += 1000; s.Read(&r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
