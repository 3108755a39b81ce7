//go:build linux

package calibrate

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spillway/internal/kernels"
)

// Surroundings is what a machine is watched by for signs that it was disturbed. Tests give it a script.
type Surroundings struct {
	// Steady and Raw are two clocks: the one that is kept in step with the world's, and the one that is left alone.
	Steady, Raw func() time.Duration
	// Processors returns how much time the machine's processors have had so far, used by anybody and taken by a hypervisor, and how much this
	// process has used. All are NaN where the kernel does not say.
	Processors func() Processors
	// Turns returns how long a fixed piece of computing takes, in the least disturbed of a few runs.
	Turns func() time.Duration
}

// Processors is time of processors, in seconds since some beginning.
type Processors struct{ All, Busy, Stolen, Own float64 }

// Noise is what was found of disturbances.
type Noise struct {
	Stolen   float64  `json:"stolen_ratio"` // of the processors' time, by a hypervisor
	Others   float64  `json:"others_ratio"` // of the processors' time, by other processes
	DriftPPM float64  `json:"drift_ppm"`    // of one clock against the other
	Speed    float64  `json:"speed_spread"` // by how much the processors were slower at one time than at another
	Spread   float64  `json:"rate_spread"`  // the largest of the rates of memory
	Findings []string `json:"findings"`     // what is worth saying, in whole sentences
	Quiet    bool     `json:"quiet"`        // nothing is
}

// What makes a machine a noisy one. A machine left to itself has less than a tenth of each.
const (
	noisySteal  = 0.01
	noisyOthers = 0.05
	noisyPPM    = 500 // as much as the kernel ever corrects a clock by
	noisySpeed  = 0.05
	noisySpread = 0.10
)

// watchman collects signs of disturbance while something is measured.
type watchman struct {
	around   Surroundings
	steady   time.Duration
	raw      time.Duration
	before   Processors
	fastest  time.Duration
	slowest  time.Duration
	observed int
}

func newWatchman(s Surroundings) *watchman {
	w := &watchman{around: s, steady: s.Steady(), raw: s.Raw(), before: s.Processors()}
	w.look()
	return w
}

// look is called between two measurements.
func (w *watchman) look() {
	t := w.around.Turns()
	if w.observed++; w.observed == 1 {
		w.fastest, w.slowest = t, t
	}
	w.fastest, w.slowest = min(w.fastest, t), max(w.slowest, t)
}

// noise says what was seen up to now. spread is the largest of the rates of memory, measured says that there are any.
func (w *watchman) noise(spread float64) Noise {
	now := w.around.Processors()
	all := now.All - w.before.All
	share := func(v float64) float64 {
		if r := v / all; r > 0 { // not NaN either
			return math.Min(r, 1)
		}
		return 0
	}
	n := Noise{
		Stolen: share(now.Stolen - w.before.Stolen),
		Others: share(now.Busy - w.before.Busy - (now.Own - w.before.Own)),
		Speed:  float64(w.slowest-w.fastest) / float64(max(w.slowest, 1)),
		Spread: spread,
	}
	steady, raw := w.around.Steady()-w.steady, w.around.Raw()-w.raw
	if raw > 0 {
		n.DriftPPM = float64(steady-raw) / float64(raw) * 1e6
	}
	say := func(when bool, format string, args ...any) {
		if when {
			n.Findings = append(n.Findings, fmt.Sprintf(format, args...))
		}
	}
	say(n.Stolen > noisySteal, "a hypervisor gave %.1f %% of the processors' time to others", 100*n.Stolen)
	say(n.Others > noisyOthers, "other processes used %.0f %% of the processors' time: stop them, and measure again", 100*n.Others)
	say(math.Abs(n.DriftPPM) > noisyPPM, "the clock is being set: it ran %+.0f millionths faster than the one that nobody corrects", n.DriftPPM)
	say(n.Speed > noisySpeed, "the processors were %.0f %% slower at one time than at another: their frequency changes, or somebody shares them", 100*n.Speed)
	say(n.Spread > noisySpread, "the rates of memory differ by %.0f %% from window to window", 100*n.Spread)
	n.Quiet = len(n.Findings) == 0
	return n
}

// Here returns the surroundings of this machine.
func Here() Surroundings {
	return Surroundings{
		Steady:     func() time.Duration { return read64(unix.CLOCK_MONOTONIC) },
		Raw:        func() time.Duration { return read64(unix.CLOCK_MONOTONIC_RAW) },
		Processors: processors,
		Turns:      turns,
	}
}

func read64(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// turns is the piece of computing: about a millisecond in all.
func turns() time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 10 {
		began := read64(unix.CLOCK_MONOTONIC)
		runtime.KeepAlive(kernels.Spin(computeTurns))
		least = min(least, read64(unix.CLOCK_MONOTONIC)-began)
	}
	return least
}

// userHZ is the unit of /proc/stat on every machine that Go runs on.
const userHZ = 100

func processors() Processors {
	var p Processors
	text, err := os.ReadFile("/proc/stat")
	if err == nil {
		p = parseProcessors(text)
	} else {
		p.All = math.NaN()
	}
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err == nil {
		p.Own = time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds()
	}
	return p
}

// parseProcessors reads the first line of /proc/stat: user nice system idle iowait irq softirq steal; what guests used is in user already.
func parseProcessors(text []byte) (p Processors) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) < 9 || string(words[0]) != "cpu" {
		return Processors{All: math.NaN()}
	}
	for i, w := range words[1:9] {
		ticks, err := strconv.ParseUint(string(w), 10, 64)
		if err != nil {
			return Processors{All: math.NaN()}
		}
		seconds := float64(ticks) / userHZ
		p.All += seconds
		switch i {
		case 3, 4: // idle
		case 7:
			p.Stolen = seconds
		default:
			p.Busy += seconds
		}
	}
	return p
}
