package aqm_test

import (
	"math"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
)

const ms = clock.Instant(time.Millisecond)

// bench asks a CoDel about a queue whose delay the test prescribes.
type bench struct {
	codel *aqm.CoDel
	now   clock.Instant
}

// newBench returns a CoDel that knows of so many waiters.
func newBench(waiting int) *bench {
	b := &bench{codel: aqm.NewCoDel(aqm.DefaultCoDel())}
	for range waiting {
		b.codel.Observe(0, control.Event{Kind: control.Queued})
	}
	return b
}

// ask offers the head of the queue, which has waited for sojourn, every step until the given instant, and returns when it was dropped.
// For each head that leaves another one comes, so that the queue keeps its length.
func (b *bench) ask(until, step clock.Instant, sojourn time.Duration) (drops []clock.Instant) {
	for ; b.now < until; b.now += step {
		for {
			r := control.Request{Arrived: b.now - clock.Instant(sojourn)}
			d := b.codel.Decide(b.now, control.AtDequeue, &r)
			b.codel.Observe(b.now, control.Event{Kind: control.Queued})
			if d.Verdict == control.Admit {
				b.codel.Observe(b.now, control.Event{Kind: control.Started})
				break
			}
			b.codel.Observe(b.now, control.Event{Kind: control.Refused, Stage: control.AtDequeue, Reason: d.Reason})
			drops = append(drops, b.now)
		}
	}
	return drops
}

// TestPaperControlLaw checks that with a standing delay the n-th drop falls an interval, and then interval/√1, interval/√2 … after
// the one before. Reference: RFC 8289, sections 5.5 and 5.6.
func TestPaperControlLaw(t *testing.T) {
	t.Parallel()
	b := newBench(10)
	const step = ms / 100
	drops := b.ask(2000*ms, step, 6*time.Millisecond)
	due := 100 * float64(ms)
	for n := range 60 {
		if late := float64(drops[n]) - due; late < 0 || late > float64(step)+1 {
			t.Fatalf("drop %d at %v, want the first question after %v", n+1, drops[n], time.Duration(due))
		}
		if n == 0 {
			due = float64(drops[0]) // the law counts from the first drop as it was made, later on from where drops were due
		}
		due += 100 * float64(ms) / math.Sqrt(float64(n+1))
	}
}

// TestPaperGoodQueue checks that a delay which falls below the target once in every interval causes no drop, however high it is in
// between. Reference: RFC 8289, section 3, on good and bad queues.
func TestPaperGoodQueue(t *testing.T) {
	t.Parallel()
	b := newBench(10)
	for range 50 {
		drops := b.ask(b.now+99*ms, ms, time.Second)
		drops = append(drops, b.ask(b.now+ms, ms, 5*time.Millisecond-1)...)
		if len(drops) > 0 {
			t.Fatalf("dropped at %v", drops)
		}
	}
	// Without the good moment the same delay is dropped, and a delay equal to the target counts as above it.
	if drops := b.ask(b.now+101*ms, ms, 5*time.Millisecond); len(drops) != 1 {
		t.Fatalf("drops after an interval at the target: %v, want one", drops)
	}
}

// TestPaperReentry checks how many drops the second of two dropping states begins with: as many as the first made when it is
// entered within 16 intervals, otherwise one. Reference: RFC 8289, section 5.5.
func TestPaperReentry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pause clock.Instant
		count float64 // of the second state when it begins
	}{
		{"within 16 intervals", 1000 * ms, 7}, // 8 drops less the 1 that the first state began with
		{"after 16 intervals", 1600 * ms, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(10)
			drops := b.ask(ms*10000, ms, 0) // nothing yet
			for len(drops) < 8 {
				drops = append(drops, b.ask(b.now+ms, ms, 6*time.Millisecond)...)
			}
			b.ask(b.now+c.pause, ms, 0)
			drops = b.ask(b.now+101*ms, ms, 6*time.Millisecond)
			if len(drops) != 1 {
				t.Fatalf("the second state began with %d drops", len(drops))
			}
			for name, value := range b.codel.Meters() {
				if value != c.count {
					t.Errorf("%s = %v, want %v", name, value, c.count)
				}
			}
		})
	}
}

// TestPaperLastWaiter checks that the last request of a queue is never dropped. Reference: RFC 8289, section 5.6, where the queue is
// left alone once it holds no more than a packet.
func TestPaperLastWaiter(t *testing.T) {
	t.Parallel()
	codel := aqm.NewCoDel(aqm.DefaultCoDel())
	for now := clock.Instant(0); now < 10_000*ms; now += ms {
		codel.Observe(now, control.Event{Kind: control.Queued})
		r := control.Request{Arrived: now - 1000*ms}
		if d := codel.Decide(now, control.AtDequeue, &r); d.Verdict != control.Admit {
			t.Fatalf("the only waiter was dropped at %v", now)
		}
		codel.Observe(now, control.Event{Kind: control.Started})
	}
}
