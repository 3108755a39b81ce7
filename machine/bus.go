package machine

import (
	"math"
	"slices"
	"time"

	"spillway/clock"
	"spillway/internal/evq"
)

// bus shares its rate among the streams on it: max-min fairly, no stream above its own rate or the per-core rate.
//
// Streams of one own rate always move equally fast, so a group of them needs no clock a stream. It has one for all: progress is
// how many bytes a stream that had been there since the group was last empty would have moved by now. A stream that joins at progress p
// with b bytes to move is done when progress reaches p + b, whatever the rates do in between:
//
//	progress ▲            ╱───      slope = rate of each stream in the group, which
//	  p + b  ┤┄┄┄┄┄┄┄┄┄┄╱           changes whenever a stream joins or leaves the bus
//	         │      ╱───
//	      p  ┤┄┄╱╱
//	         └──┴───────┴───▶ time
//	          joins    done
//
// So an event costs O(log streams) for the heap of its group and O(groups) for the rates. There are as many groups as a workload
// has access patterns, which is a handful.
type bus struct {
	spec   Bus
	groups []*group // by rate alone, ascending
	n      int      // streams on the bus
	at     clock.Instant
	moved  float64 // bytes, up to at
}

type group struct {
	alone    float64 // bytes per ns that a stream of this group reaches with the bus to itself
	rate     float64 // bytes per ns that each gets now
	progress float64 // bytes
	streams  evq.Queue[*Job]
}

// bytesEpsilon forgives rounding: completion instants are whole nanoseconds, progress is a float64. A stream that is this near its
// end is done. Where progress has grown so far that its own rounding is coarser (an hour without a pause: four thousandths of a
// byte), a stream ends one nanosecond later than it might.
const bytesEpsilon = 1e-3

// add puts a job's Stream step on the bus.
func (b *bus) add(now clock.Instant, j *Job, s *Step) {
	if b.spec.PerCore <= 0 {
		panic("machine: a stream step on a machine without a bus")
	}
	b.settle(now)
	alone := b.spec.PerCore
	if s.Rate > 0 {
		alone = min(alone, s.Rate)
	}
	g := b.group(alone / 1e9)
	if g.streams.Len() == 0 {
		g.progress = 0 // nothing refers to it, and small numbers keep their precision
	}
	// Non-negative floats keep their order as bit patterns, so the queue of instants serves for bytes too.
	g.streams.Push(math.Float64bits(g.progress+float64(s.Bytes)), j)
	b.n++
	b.share()
}

// group returns the group of streams that reach alone, bytes per ns, by themselves.
func (b *bus) group(alone float64) *group {
	i, found := slices.BinarySearchFunc(b.groups, alone, func(g *group, a float64) int {
		switch {
		case g.alone < a:
			return -1
		case g.alone > a:
			return 1
		}
		return 0
	})
	if !found {
		b.groups = slices.Insert(b.groups, i, &group{alone: alone})
	}
	return b.groups[i]
}

// settle moves every stream on to now.
func (b *bus) settle(now clock.Instant) {
	dt := float64(now.Sub(b.at))
	b.at = now
	if dt == 0 || b.n == 0 {
		return
	}
	for _, g := range b.groups {
		if n := g.streams.Len(); n > 0 {
			g.progress += g.rate * dt
			b.moved += g.rate * dt * float64(n)
		}
	}
}

// finished takes a stream that is done off the bus; nil when there is none. The bus must be settled.
func (b *bus) finished() *Job {
	for _, g := range b.groups {
		if g.streams.Len() > 0 && math.Float64frombits(g.streams.Key()) <= g.progress+bytesEpsilon {
			j := g.streams.Pop()
			b.n--
			b.share()
			return j
		}
	}
	return nil
}

// share divides the bus by water-filling: groups in ascending order of what they can use take it if it is no more than an equal share of
// what is left; the first that would take more, and all after it, get that equal share.
func (b *bus) share() {
	left, streams := b.spec.Effective(b.n)/1e9, float64(b.n)
	for _, g := range b.groups {
		n := float64(g.streams.Len())
		if n == 0 {
			continue
		}
		g.rate = min(g.alone, left/streams)
		left -= g.rate * n
		streams -= n
	}
}

// next returns when the first stream will be done.
func (b *bus) next() clock.Instant {
	next := clock.Never
	for _, g := range b.groups {
		if g.streams.Len() == 0 {
			continue
		}
		bytes := math.Float64frombits(g.streams.Key()) - g.progress
		if bytes <= bytesEpsilon {
			return b.at
		}
		// Rounded up: at the instant returned the stream is done, not nearly done.
		next = min(next, b.at.Add(time.Duration(math.Ceil(bytes/g.rate))))
	}
	return next
}

// movedAt returns the bytes moved up to now.
func (b *bus) movedAt(now clock.Instant) float64 {
	moved := b.moved
	for _, g := range b.groups {
		moved += g.rate * float64(g.streams.Len()) * float64(now.Sub(b.at))
	}
	return moved
}

// timers holds the jobs whose current step ends at a known instant.
type timers struct{ q evq.Queue[*Job] }

func (t *timers) push(at clock.Instant, j *Job) { t.q.Push(uint64(at), j) }

func (t *timers) pop() *Job { return t.q.Pop() }

func (t *timers) next() clock.Instant {
	if t.q.Len() == 0 {
		return clock.Never
	}
	return clock.Instant(t.q.Key())
}
