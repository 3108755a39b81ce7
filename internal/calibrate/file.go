//go:build linux

package calibrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spillway/internal/kernels"
	"spillway/machine"
	"spillway/profiles"
)

// ErrNothing says that too little was measured to describe a machine.
var ErrNothing = errors.New("the bandwidth of one stream was not measured, and without it there is no machine to describe")

// Machine describes the machine as profiles do. What was not measured has its default, and says that it is assumed.
//
// The bus is that of reads: what the reference servers' streams do. Where the cores cannot fill it, its total is what they can ask for, which a
// model of this many cores never exceeds.
func (r *Result) Machine() (*profiles.Machine, error) {
	if r.Knee == nil {
		return nil, ErrNothing
	}
	m := &profiles.Machine{
		Cores: r.Host.Cores, Network: machine.DefaultNetwork, RAM: profiles.Size(rounded(float64(r.Host.RAM))),
		Bus: &profiles.Bus{
			Total: profiles.Size(rounded(r.Knee.Total)), PerCore: profiles.Size(rounded(r.Knee.PerStream)),
			Decay: math.Round(r.Knee.Decay*1000) / 1000,
		},
		Provenance: map[string]string{
			"cores": profiles.Measured, "bus.total": profiles.Measured, "bus.per_core": profiles.Measured,
			"network": profiles.Assumed, "ram": profiles.Measured,
		},
		Spread: map[string]float64{},
	}
	if m.Bus.Decay > 0 {
		m.Provenance["bus.decay"] = profiles.Measured
	}
	for _, rate := range r.Rates {
		if rate.Kernel != kernels.Read.Name {
			continue
		}
		if rate.Best == r.Knee.Total {
			m.Spread["bus.total"] = hundredths(rate.Spread)
		}
		if rate.Streams == 1 {
			m.Spread["bus.per_core"] = hundredths(rate.Spread)
		}
	}
	if r.Loopback != nil {
		m.Network = time.Duration(rounded(float64(r.Loopback.Median) / 2))
		m.Provenance["network"] = profiles.Measured
		m.Spread["network"] = hundredths(r.Loopback.Spread)
	}
	return m, nil
}

// rounded keeps three digits: the others say nothing.
func rounded(v float64) float64 {
	if v <= 0 {
		return 0
	}
	scale := math.Pow10(int(math.Floor(math.Log10(v))) - 2)
	if scale <= 1 {
		return math.Round(v)
	}
	return math.Round(v/scale) * scale
}

func hundredths(v float64) float64 { return math.Round(v*100) / 100 }

// File returns the machine as a file that profiles.LoadMachine reads, with everything else that was measured as comments above it.
func (r *Result) File() ([]byte, error) {
	m, err := r.Machine()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for line := range strings.Lines(r.Text()) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	b.Write(m.Text())
	return b.Bytes(), nil
}

// Text says what was measured, for people.
func (r *Result) Text() string {
	var b strings.Builder
	cpu := r.Host.CPU
	if cpu == "" {
		cpu = "a processor without a name"
	}
	fmt.Fprintf(&b, "Measured by loadgen calibrate in %.0f s: %s, %d cores", r.Took, cpu, r.Host.Cores)
	if r.Host.Hypervisor {
		b.WriteString(", virtual")
	}
	fmt.Fprintf(&b, ". Streams go over %s each.\n", mib(r.Host.Region))
	if r.Unfinished {
		b.WriteString("It was interrupted: what does not stand here was not measured.\n")
	}
	r.kneeText(&b)
	for _, f := range r.Noise.Findings {
		fmt.Fprintf(&b, "This machine was disturbed: %s.\n", f)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s%s.\n", strings.ToUpper(n[:1]), n[1:])
	}
	r.tables(&b)
	return b.String()
}

// kneeText says whether the memory can be saturated.
func (r *Result) kneeText(b *strings.Builder) {
	k := r.Knee
	switch {
	case k == nil:
	case k.Saturated:
		fmt.Fprintf(b, "%.1f streams saturate the memory: one moves %s, all together %s.\n", k.At, gb(k.PerStream), gb(k.Total))
		if k.Decay > 0 {
			fmt.Fprintf(b, "Each stream beyond that loses %.1f %% of it.\n", 100*k.Decay)
		}
	case k.Unsure:
		fmt.Fprintf(b, "Whether these cores saturate the memory cannot be told: together they move %s, less than as many times the %s of one alone, but rates\n"+
			"differed as much from window to window, or streams had to wait for a processor. Measure again when nothing else runs.\n", gb(k.Total), gb(k.PerStream))
	case k.Tried < r.Host.Cores:
		fmt.Fprintf(b, "Up to %s, of %d that have a core, do not saturate the memory: together they move %s, one alone %s. bus.total is a lower bound.\n",
			counted(k.Tried, "stream"), r.Host.Cores, gb(k.Total), gb(k.PerStream))
	default:
		fmt.Fprintf(b, "This machine cannot saturate its memory with the cores it has: with a stream on each they move %s, which is as much as they ask\n"+
			"for (one alone %s). bus.total is a lower bound, and nothing here says what happens beyond it.\n", gb(k.Total), gb(k.PerStream))
	}
}

func (r *Result) tables(b *strings.Builder) {
	if len(r.Rates) > 0 {
		b.WriteString("\nmemory          streams  best GB/s  median GB/s  spread   lost  bytes across the bus for each of the program\n")
	}
	for i := range r.Rates {
		rate := &r.Rates[i]
		k := kernelOf(rate.Kernel)
		fmt.Fprintf(b, "%-15s %7d  %9.2f  %11.2f  %5.0f%%  %4.0f%%  %s\n", rate.Kernel, rate.Streams, rate.Best/1e9, rate.Median/1e9, 100*rate.Spread,
			100*rate.Lost, factor(k))
	}
	if len(r.Latencies) > 0 {
		b.WriteString("\na load of memory takes\n")
	}
	for _, l := range r.Latencies {
		beside := "nothing"
		if l.Streams > 0 {
			beside = fmt.Sprintf("%s, %.0f %% of the time, %.1f GB/s", counted(l.Streams, "stream"), 100*l.Duty, l.Bandwidth/1e9)
		}
		fmt.Fprintf(b, "%10.0f ns  %4.0f%%  beside %s\n", l.NSPerLoad, 100*l.Spread, beside)
	}
	b.WriteString("\n")
	if c := r.Compute; c != nil {
		fmt.Fprintf(b, "computing: %.3f ns a turn (median %.3f, spread %.0f %%)\n", c.NSPerTurn, c.Median, 100*c.Spread)
	}
	for _, d := range []struct {
		what string
		d    *Duration
	}{
		{"a cache line from core to core", r.Line}, {"a lock to a goroutine that waits for it", r.Lock}, {"a round trip over the loopback device", r.Loopback},
	} {
		if d.d != nil {
			fmt.Fprintf(b, "%s: median %s, best %s, p99 %s\n", d.what, short(d.d.Median), short(d.d.Best), short(d.d.P99))
		}
	}
	for _, p := range r.Pacing {
		fmt.Fprintf(b, "pacing, %s at %.0f/s: late by %s at the median, %s at p99\n", p.Pace, p.Rate, short(p.P50), short(p.P99))
	}
}

// counted writes a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func kernelOf(name string) *kernels.Kernel {
	for _, k := range []*kernels.Kernel{&kernels.Read, &kernels.Write, &kernels.Copy, &kernels.Store} {
		if k.Name == name {
			return k
		}
	}
	return &kernels.Kernel{Name: name}
}

// factor says how many bytes cross the bus.
func factor(k *kernels.Kernel) string {
	text := fmt.Sprintf("%.0f (%.0f read, %.0f written)", k.Traffic.Total(), k.Traffic.Read, k.Traffic.Written)
	if !k.Exact {
		return text + " at most"
	}
	return text
}

func gb(v float64) string { return fmt.Sprintf("%.2f GB/s", v/1e9) }

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// short writes a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	default:
		return d.Round(100 * time.Microsecond).String()
	}
}

// WriteWhole writes a file so that it is there whole or not at all: beside its place first, and then renamed.
func WriteWhole(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Writable says what keeps a file from being written at path, before anything is measured for it.
func Writable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there and is no file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
