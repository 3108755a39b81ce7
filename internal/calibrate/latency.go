//go:build linux

package calibrate

import (
	"context"
	"slices"
	"time"

	"spillway/counters"
	"spillway/internal/kernels"
)

// Latency is how long a load took that waits for the one before, while some streams read.
type Latency struct {
	Streams   int     `json:"streams"`
	Duty      float64 `json:"duty"` // share of their time in which they read
	Bandwidth float64 `json:"bandwidth_bytes_per_s"`
	NSPerLoad float64 `json:"ns_per_load"` // the median
	Spread    float64 `json:"spread"`      // of the middle half of the bursts
}

// latencies measures the loaded latency on the first processor, with streams on the others. With one processor there is only the quiet one.
func (b *bench) latencies(ctx context.Context, span time.Duration) ([]Latency, error) {
	chase, err := counters.NewChase(b.size)
	if err != nil {
		return nil, err
	}
	defer chase.Close()
	others := *b
	others.cpus = b.cpus[1:]
	var list []Latency
	for _, at := range loads(len(others.cpus)) {
		one, err := others.latency(ctx, chase, b.cpus[0], at, span)
		if err != nil {
			return list, err
		}
		list = append(list, one)
	}
	return list, nil
}

// loads lists what is put on the memory, lightest first: one stream at rising duty, then more of them.
func loads(most int) (list []Latency) {
	list = []Latency{{}}
	if most == 0 {
		return list
	}
	for _, duty := range []float64{0.25, 0.5, 0.75} {
		list = append(list, Latency{Streams: 1, Duty: duty})
	}
	for n := 1; n < most; n *= 2 {
		list = append(list, Latency{Streams: n, Duty: 1})
	}
	return append(list, Latency{Streams: most, Duty: 1})
}

func (b *bench) latency(ctx context.Context, chase *counters.Chase, cpu int, at Latency, span time.Duration) (Latency, error) {
	lanes, stop, err := b.start(&kernels.Read, at.Streams, at.Duty)
	if err != nil {
		return at, err
	}
	defer stop()
	b.machine.Wait(ctx, b.settle)
	type result struct {
		ns    []float64
		bytes int64
		took  time.Duration
		err   error
	}
	done := make(chan result, 1)
	go func() {
		if err := pin(cpu); err != nil {
			done <- result{err: err}
			return
		}
		var r result
		before, began := total(lanes), b.machine.Clock.Now()
		for end := began.Add(span); b.machine.Clock.Now() < end && ctx.Err() == nil; {
			if ns, ok := chase.Burst(); ok {
				r.ns = append(r.ns, ns)
			}
		}
		r.bytes, r.took = total(lanes)-before, b.machine.Clock.Now().Sub(began)
		done <- r
	}()
	r := <-done
	if r.err == nil {
		r.err = ctx.Err()
	}
	if r.err != nil {
		return at, r.err
	}
	if len(r.ns) > 0 {
		slices.Sort(r.ns)
		quarter := len(r.ns) / 4
		at.NSPerLoad = r.ns[len(r.ns)/2]
		at.Spread = (r.ns[len(r.ns)-1-quarter] - r.ns[quarter]) / at.NSPerLoad
	}
	at.Bandwidth = float64(r.bytes) / r.took.Seconds()
	return at, nil
}
