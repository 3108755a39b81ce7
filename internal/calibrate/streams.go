//go:build linux

package calibrate

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spillway/counters"
	"spillway/internal/kernels"
)

// Rate is how many bytes a second some streams moved together over the bus, in several windows of one run.
type Rate struct {
	Kernel  string    `json:"kernel"`
	Streams int       `json:"streams"`
	Windows []float64 `json:"-"`
	Best    float64   `json:"best_bytes_per_s"`   // the window that was disturbed least
	Median  float64   `json:"median_bytes_per_s"` // what is usual
	// Spread is by how much the median is below the best.
	Spread float64 `json:"spread"`
	// Lost is the share of their time in which the streams' threads had no processor.
	Lost float64 `json:"lost_ratio"`
}

// bench runs streams.
type bench struct {
	machine *counters.Machine
	cpus    []int
	size    int64 // of a stream's region
	settle  time.Duration
	window  time.Duration
	windows int
}

// lane is one stream. Its counter shares no cache line with another's.
type lane struct {
	_     [64]byte
	bytes atomic.Int64 // of the program
	_     [64]byte
	cpu   time.Duration // of its thread, while it ran
	wall  time.Duration
	err   error
}

// run measures n streams of a kernel, each pinned to a processor of its own. On ctx's end it returns its error.
func (b *bench) run(ctx context.Context, k *kernels.Kernel, n int) (Rate, error) {
	r := Rate{Kernel: k.Name, Streams: n}
	lanes, stop, err := b.start(k, n, 1)
	if err != nil {
		return r, err
	}
	defer stop()
	b.machine.Wait(ctx, b.settle)
	last, at := total(lanes), b.machine.Clock.Now()
	for range b.windows {
		b.machine.Wait(ctx, b.window)
		if err := ctx.Err(); err != nil {
			return r, err
		}
		bytes, now := total(lanes), b.machine.Clock.Now()
		r.Windows = append(r.Windows, float64(bytes-last)*k.Traffic.Total()/now.Sub(at).Seconds())
		last, at = bytes, now
	}
	stop()
	r.summarise()
	for _, l := range lanes {
		if l.wall > 0 {
			r.Lost += max(0, 1-l.cpu.Seconds()/l.wall.Seconds()) / float64(n)
		}
	}
	return r, nil
}

func (r *Rate) summarise() {
	r.Best, r.Median, r.Spread = best(r.Windows)
}

// best returns the largest value, the median, and by which share of the largest the median is below it.
func best(values []float64) (largest, median, spread float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(values))
	largest, median = sorted[len(sorted)-1], sorted[len(sorted)/2]
	if largest > 0 {
		spread = (largest - median) / largest
	}
	return largest, median, spread
}

func total(lanes []*lane) (sum int64) {
	for _, l := range lanes {
		sum += l.bytes.Load()
	}
	return sum
}

// start lets n streams run for a share of their time, their duty, and returns once all of them do. The function that stops them may be called more
// than once; it waits until they have.
func (b *bench) start(k *kernels.Kernel, n int, duty float64) (lanes []*lane, stop func(), err error) {
	if n > len(b.cpus) {
		return nil, nil, fmt.Errorf("%d streams on %d processors", n, len(b.cpus))
	}
	// Whoever starts and stops them needs a place beside them, or it would wait until the runtime takes one away.
	procs := runtime.GOMAXPROCS(0)
	if procs < n+2 {
		runtime.GOMAXPROCS(n + 2)
	}
	var ready, done sync.WaitGroup
	var quit atomic.Bool
	ready.Add(n)
	for i := range n {
		l := &lane{}
		lanes = append(lanes, l)
		done.Go(func() { b.stream(k, b.cpus[i], duty, l, &ready, &quit) })
	}
	ready.Wait()
	stop = sync.OnceFunc(func() {
		quit.Store(true)
		done.Wait()
		runtime.GOMAXPROCS(procs)
	})
	for _, l := range lanes {
		if l.err != nil {
			stop()
			return nil, nil, l.err
		}
	}
	return lanes, stop, nil
}

// stream goes over memory of its own until it is told to stop. Its error is in l by the time that it is ready.
func (b *bench) stream(k *kernels.Kernel, cpu int, duty float64, l *lane, ready *sync.WaitGroup, quit *atomic.Bool) {
	begun := sync.OnceFunc(ready.Done)
	defer begun()
	if l.err = pin(cpu); l.err != nil {
		return
	}
	size := b.size
	if k.Copies {
		size /= 2
	}
	var to, from *region
	if to, l.err = newRegion(size); l.err != nil {
		return
	}
	defer to.close()
	from = to
	if k.Copies {
		if from, l.err = newRegion(size); l.err != nil {
			return
		}
		defer from.close()
	}
	begun()
	clock := b.machine.Clock
	began, cpuBegan := clock.Now(), threadCPU()
	for i := 0; !quit.Load(); i = (i + 1) % to.chunks() {
		at := clock.Now()
		k.Run(to.chunk(i), from.chunk(i))
		l.bytes.Add(chunkBytes)
		if duty < 1 {
			// The wait is in proportion to what the chunk took, so that the duty holds whatever the memory's speed.
			pause := time.Duration(float64(clock.Now().Sub(at)) * (1/duty - 1))
			for end := clock.Now().Add(pause); clock.Now() < end && !quit.Load(); {
				runtime.KeepAlive(kernels.Spin(pauseTurns))
			}
		}
	}
	l.wall, l.cpu = clock.Now().Sub(began), threadCPU()-cpuBegan
}

// chunkBytes is what a stream does between two looks at whether it shall stop.
const chunkBytes = 256 << 10

// pauseTurns are few enough to stop in time, and enough to leave the memory alone.
const pauseTurns = 200

// threadCPU returns the processor time that the calling thread has had.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Knee is what the rates of one kernel over the number of streams say.
type Knee struct {
	PerStream float64 `json:"per_stream_bytes_per_s"` // of one alone
	Total     float64 `json:"total_bytes_per_s"`      // the most that was seen of any number
	At        float64 `json:"streams"`                // how many fill the bus: Total / PerStream
	Tried     int     `json:"most_tried"`             // the largest number that was tried
	Decay     float64 `json:"decay"`                  // share of Total lost per stream beyond that
	// Saturated says that more streams were tried than the memory can serve. If not, Total is only the most that the cores can ask for.
	Saturated bool `json:"saturated"`
	// Unsure says that there was a loss, which is no larger than what the rates differ by anyway, or than the time that streams had no processor for.
	Unsure bool `json:"unsure,omitempty"`
}

// What a knee is recognised by.
const (
	// fullShare is how much of what its streams would move alone a machine must at least lose for its memory to be the reason.
	fullShare = 0.10
	// decaySure is the least loss beyond the knee that is not taken for noise.
	decaySure = 0.02
)

// FindKnee reads rates, which must have one of a single stream. Where rates differ by more than fullShare from window to window, or streams had to wait
// for a processor, the loss must exceed that: it would be no proof otherwise.
func FindKnee(rates []Rate) Knee {
	k := Knee{}
	largest, noise := Rate{}, 0.0
	for _, r := range rates {
		if r.Streams == 1 {
			k.PerStream = r.Best
		}
		if r.Best > k.Total {
			k.Total = r.Best
		}
		if r.Streams > largest.Streams {
			largest = r
		}
		noise = max(noise, r.Spread, r.Lost)
	}
	k.Tried = largest.Streams
	if k.PerStream == 0 {
		return k
	}
	k.At = k.Total / k.PerStream
	asked := k.PerStream * float64(largest.Streams)
	k.Saturated = largest.Best < (1-max(fullShare, noise))*asked
	k.Unsure = !k.Saturated && largest.Best < (1-fullShare)*asked
	if !k.Saturated {
		return k
	}
	lost, n := 0.0, 0
	for _, r := range rates {
		if excess := float64(r.Streams) - k.At; excess > 0.5 {
			lost += (k.Total - r.Best) / k.Total / excess
			n++
		}
	}
	if n > 0 && lost/float64(n) > decaySure {
		k.Decay = math.Min(lost/float64(n), 1)
	}
	return k
}
