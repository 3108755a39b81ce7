//go:build linux

package calibrate

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/kernels"
	"spillway/machine"
	"spillway/profiles"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares text with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// server16 is what a server of sixteen cores and six streams gives.
func server16() *Result {
	rate := func(k *kernels.Kernel, n int, best, median float64) Rate {
		return Rate{Kernel: k.Name, Streams: n, Best: best, Median: median, Spread: (best - median) / best}
	}
	r := &Result{
		Host: Host{CPU: "Test CPU 9000", Cores: 16, RAM: 67_430_000_000, LLC: 32 << 20, Region: 128 << 20},
		Took: 24.6,
		Rates: []Rate{
			rate(&kernels.Read, 1, 9.873e9, 9.7e9), rate(&kernels.Read, 2, 19.7e9, 19.5e9), rate(&kernels.Read, 4, 39.2e9, 38e9), rate(&kernels.Read, 6, 55.1e9, 54e9),
			rate(&kernels.Read, 8, 60.12e9, 59.4e9), rate(&kernels.Read, 16, 54.2e9, 53e9),
			rate(&kernels.Write, 1, 7e9, 6.9e9), rate(&kernels.Write, 16, 50e9, 49e9), rate(&kernels.Store, 16, 48e9, 47e9),
		},
		Latencies: []Latency{{NSPerLoad: 82, Spread: 0.02}, {Streams: 1, Duty: 0.5, Bandwidth: 5e9, NSPerLoad: 85, Spread: 0.03}, {Streams: 15, Duty: 1, Bandwidth: 54e9, NSPerLoad: 161, Spread: 0.1}},
		Compute:   &Compute{NSPerTurn: 1.25, Median: 1.26, Spread: 0.01},
		Line:      &Duration{Best: 60, Median: 71, P99: 130, Count: 100},
		Lock:      &Duration{Best: 2 * time.Microsecond, Median: 3100, P99: 9 * time.Microsecond, Count: 100},
		Loopback:  &Duration{Best: 9 * time.Microsecond, Median: 11_340, P99: 31 * time.Microsecond, Spread: 0.07, Count: 1000},
		Pacing:    []Pacing{{Pace: "sleep", Rate: 5000, P50: 900, P99: 61 * time.Microsecond, Max: time.Millisecond}},
	}
	k := FindKnee(r.Rates[:6])
	r.Knee = &k
	return r
}

func TestMachineFile(t *testing.T) {
	t.Parallel()
	small := &Result{
		Host:     Host{Cores: 2, RAM: 8 << 30, Hypervisor: true, Region: 64 << 20},
		Rates:    []Rate{{Kernel: kernels.Read.Name, Streams: 1, Best: 11e9, Median: 10e9, Spread: 0.09}, {Kernel: kernels.Read.Name, Streams: 2, Best: 21.6e9, Median: 19e9, Spread: 0.12}},
		Noise:    Noise{Findings: []string{"a hypervisor gave 5.0 % of the processors' time to others"}},
		Notes:    []string{"there was too little free memory"},
		Took:     3,
		Loopback: nil, Unfinished: true,
	}
	k := FindKnee(small.Rates)
	small.Knee = &k
	for name, r := range map[string]*Result{"server16.yaml": server16(), "small.yaml": small} {
		text, err := r.File()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, text)
		path := filepath.Join(t.TempDir(), name)
		if err := WriteWhole(path, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			t.Fatal(err)
		}
		m, err := profiles.LoadMachine(path)
		if err != nil {
			t.Fatalf("%s is written and cannot be read: %v", name, err)
		}
		want, err := r.Machine()
		if err != nil {
			t.Fatal(err)
		}
		want.Name = strings.TrimSuffix(name, ".yaml")
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("%s read again (-want +got):\n%s", name, diff)
		}
		spec, ok := m.Spec()
		if err := spec.Check(); !ok || err != nil {
			t.Errorf("%s is no machine to simulate: %v", name, err)
		}
		if name == "server16.yaml" {
			want := machine.Spec{Cores: 16, Bus: machine.Bus{Total: 60.1e9, PerCore: 9.87e9}, Network: 5670 * time.Nanosecond, RAM: 67_400_000_000}
			spec.Bus.Decay = 0
			if diff := cmp.Diff(want, spec); diff != "" || m.Origin("network") != "measured" || m.Spread["network"] != 0.07 {
				t.Errorf("(-want +got):\n%s", diff)
			}
		} else if m.Origin("network") != "assumed" || m.Network != machine.DefaultNetwork {
			t.Errorf("the network was not measured, and is %v, %s", m.Network, m.Origin("network"))
		}
	}
}

func TestNothingToDescribe(t *testing.T) {
	t.Parallel()
	if _, err := (&Result{}).File(); !errors.Is(err, ErrNothing) {
		t.Errorf("%v", err)
	}
}

func TestWritable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "new.yaml"):            "",
		filepath.Join(dir, "missing", "new.yaml"): "cannot be written: no such file or directory",
		dir: "is there and is no file",
	} {
		if err := Writable(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	failing := errors.New("the disk is full")
	path := filepath.Join(dir, "half.yaml")
	if err := WriteWhole(path, func(io.Writer) error { return failing }); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
}

func TestFindKnee(t *testing.T) {
	t.Parallel()
	reads := func(best ...float64) (list []Rate) {
		for i, b := range best {
			list = append(list, Rate{Kernel: kernels.Read.Name, Streams: i + 1, Best: b, Median: b * 0.98, Spread: 0.02})
		}
		return list
	}
	noisy := reads(10, 16)
	noisy[1].Spread = 0.3
	preempted := reads(10, 12)
	preempted[1].Lost = 0.49
	for name, tc := range map[string]struct {
		rates []Rate
		want  Knee
	}{
		"saturated":              {reads(10, 20, 28, 30, 30), Knee{PerStream: 10, Total: 30, At: 3, Tried: 5, Saturated: true}},
		"falls beyond":           {reads(10, 20, 30, 27, 24), Knee{PerStream: 10, Total: 30, At: 3, Decay: 0.1, Tried: 5, Saturated: true}},
		"too few cores":          {reads(10, 19.5), Knee{PerStream: 10, Total: 19.5, At: 1.95, Tried: 2}},
		"one core":               {reads(10), Knee{PerStream: 10, Total: 10, At: 1, Tried: 1}},
		"noise is no proof":      {noisy, Knee{PerStream: 10, Total: 16, At: 1.6, Tried: 2, Unsure: true}},
		"no processor to run on": {preempted, Knee{PerStream: 10, Total: 12, At: 1.2, Tried: 2, Unsure: true}},
		"one stream is needed":   {reads(10, 20)[1:], Knee{Total: 20, Tried: 2}},
		"nothing":                {nil, Knee{}},
	} {
		if diff := cmp.Diff(tc.want, FindKnee(tc.rates), cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
