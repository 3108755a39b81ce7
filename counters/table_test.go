//go:build linux

package counters

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"spillway/counters/perf"
)

// provider returns one of the providers by name.
func provider(t *testing.T, name string) Provider {
	t.Helper()
	for _, p := range Providers(nil, 0) {
		if p.Name() == name {
			return p
		}
	}
	t.Fatalf("no provider %s", name)
	return nil
}

// sorted returns events in one order, whether or not they were opened pinned.
func sorted(list []perf.Attr) []perf.Attr {
	list = slices.Clone(list)
	for i := range list {
		list[i].Pinned = false
	}
	slices.SortFunc(list, func(a, b perf.Attr) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Config, b.Config), cmp.Compare(a.Config1, b.Config1), cmp.Compare(a.Config2, b.Config2))
	})
	return list
}

// On every machine of the table, exactly the right events are opened: type, the three words, and processor.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p.build(f)
			s, err := provider(t, p.provider).Open(f.machine())
			if err != nil {
				t.Fatal(err)
			}
			var want []perf.Attr
			for _, w := range p.want {
				for _, typ := range w.types {
					for _, cpu := range w.cpus {
						for _, c := range w.configs {
							want = append(want, perf.Attr{Type: uint32(typ), Config: c.Config, Config1: c.Config1, Config2: c.Config2, CPU: cpu})
						}
					}
				}
			}
			if d := diff.Diff(sorted(want), sorted(f.kernel.Opened)); d != "" {
				t.Errorf("events (-want +got)\n%s", d)
			}
			if got := len(s.Capability().Events); got != len(want) {
				t.Errorf("%d events are described, %d were opened", got, len(want))
			}
			// Everything counts at the same rate, so the bytes are the sum over what a count is worth.
			f.now += 1000
			var r Reading
			s.Read(&r)
			if p.bytes > 0 && r.Total != 1000*p.bytes {
				t.Errorf("a count on each of the events is %v bytes, want %v", r.Total/1000, p.bytes)
			}
			if err := s.Close(); err != nil || f.kernel.Left() != 0 {
				t.Errorf("%v, and %d events are left open", err, f.kernel.Left())
			}
		})
	}
}

// A machine on which a provider has nothing to open says why, and what would help.
func TestAbsent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, provider string
		build          func(f *fixture)
		reason, remedy string
	}{
		{"empty", "intel-imc", func(*fixture) {}, "no PMU uncore_imc_#", ""},
		{"another vendor", "intel-imc", func(f *fixture) { f.cpu(amd, 25, 1, 2, 1, "hypervisor") }, "made for GenuineIntel, and this processor is AuthenticAMD", ""},
		{"virtual", "amd-umc", func(f *fixture) { f.cpu(amd, 25, 17, 2, 1, "hypervisor") }, "no PMU amd_umc_#", "a virtual machine hides the memory controller"},
		{"module", "arm-cmn", func(f *fixture) { f.cpu(arm, 0, 0, 2, 1, "") }, "no PMU arm_cmn_#", "modprobe arm-cmn"},
		{
			"a processor of the future", "intel-imc", func(f *fixture) { f.cpu(intel, 6, 0xff, 2, 1, ""); imcs(f, 2, "0") },
			"there is uncore_imc_1, but no events of it are known for this processor (GenuineIntel, family 6, model 0xff)", "loadgen counters selftest",
		},
		{
			"Zen 4 with a kernel that does not know it", "amd-df", func(f *fixture) { f.cpu(amd, 0x19, 0x11, 2, 1, ""); f.pmu("amd_df", 8, "0", formatOldDF, nil) },
			"no events of it are known", "loadgen counters selftest",
		},
		{
			"no cpumask", "intel-imc", func(f *fixture) { f.cpu(intel, 6, 0x8f, 2, 1, ""); imcs(f, 1, "") },
			"uncore_imc_0: the kernel does not say on which CPU to count", "loadgen counters selftest",
		},
		{
			"a format without umask", "intel-imc", func(f *fixture) {
				f.cpu(intel, 6, 0x8f, 2, 1, "")
				f.pmu("uncore_imc_0", 20, "0", []string{"event=config:0-7"}, nil)
			},
			`no field "umask"`, "loadgen counters selftest",
		},
		{"an odd type", "intel-imc", func(f *fixture) { f.cpu(intel, 6, 0x8f, 2, 1, ""); f.file(deviceDir+"uncore_imc_0/type", "?") }, "not a number", "selftest"},
		{"misses of AMD's L2 are not those of the last level", "llc-miss", func(f *fixture) { f.cpu(amd, 25, 1, 2, 1, ""); f.pmu("cpu", 4, "", nil, nil) }, "there is cpu, but no events", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tt.build(f)
			_, err := provider(t, tt.provider).Open(f.machine())
			var u *Unusable
			if !errors.As(err, &u) {
				t.Fatalf("%v is not an Unusable", err)
			}
			if !strings.Contains(u.Reason, tt.reason) || !strings.Contains(u.Remedy, tt.remedy) {
				t.Errorf("%q; %q\nwant %q; %q", u.Reason, u.Remedy, tt.reason, tt.remedy)
			}
			if len(f.kernel.Opened) != 0 {
				t.Errorf("opened %v", f.kernel.Opened)
			}
		})
	}
}

// Where events have to take turns, they are alone and not pinned, and what they show is worth reading every ten rounds.
func TestCrowdedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cpu(amd, 0x17, 0x31, 16, 1, "")
	f.pmu("amd_df", 8, "0", formatOldDF, nil)
	s, err := provider(t, "amd-df").Open(f.machine())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range f.kernel.Opened {
		if a.Pinned {
			t.Errorf("%+v is pinned", a)
		}
	}
	if got := s.Capability().MinPeriod; got != 160*time.Millisecond {
		t.Errorf("windows of %v, want 160 ms: five rounds of eight moves of 4 ms", got)
	}
}

// The table has no row that nothing tests.
func TestEveryProviderHasAPlatform(t *testing.T) {
	t.Parallel()
	for _, p := range append(slices.Clone(perfProviders), llcProvider) {
		if !slices.ContainsFunc(platforms, func(q platform) bool { return q.provider == p.name }) {
			t.Errorf("no platform for %s", p.name)
		}
	}
}
