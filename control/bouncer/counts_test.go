package bouncer

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
)

// Whatever arrives, starts, finishes, fails, expires or is withdrawn, the counts are those of the Gate, the work that waits is what waits, and
// nothing waits beside an idle process.
func TestCountsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.Parallelism, c.Window, c.Samples = rapid.IntRange(1, 3).Draw(t, "parallelism"), 50*ms, rapid.IntRange(1, 20).Draw(t, "samples")
		b := New(c, Env{Classes: four()})
		slots := rapid.IntRange(0, 4).Draw(t, "slots")
		g := control.NewGate(b, control.GateConfig{Slots: slots, Queue: rapid.IntRange(0, 6).Draw(t, "queue")})
		var now, tick clock.Instant
		var inService []control.Request
		waiting := map[uint64]control.Place{}
		var ids []uint64
		take := func(actions []control.Action) {
			for _, a := range actions {
				switch a.Kind {
				case control.Start:
					delete(waiting, a.Request.ID)
					inService = append(inService, a.Request)
				case control.Queue:
					waiting[a.Request.ID] = a.Place
					ids = append(ids, a.Request.ID)
				case control.Refuse:
					delete(waiting, a.Request.ID)
				}
			}
		}
		for id := range uint64(200) {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "pause")) * ms)
			if now >= tick {
				var actions []control.Action
				actions, tick = g.Tick(now, control.Signals{}, nil)
				take(actions)
			}
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what < 3:
				r := control.Request{ID: id, Class: uint16(rapid.IntRange(0, 9).Draw(t, "class"))}
				if rapid.Bool().Draw(t, "deadline") {
					r.Deadline = now.Add(10 * ms)
				}
				take(g.Arrive(now, r, nil))
			case what < 5 && len(inService) > 0:
				r := inService[0]
				inService = inService[1:]
				took := time.Duration(rapid.IntRange(1, 60).Draw(t, "took")) * ms
				take(g.Finish(now, r, took, rapid.Bool().Draw(t, "failed"), nil))
			case len(ids) > 0:
				gone := rapid.SampledFrom(ids).Draw(t, "gone")
				if place, waits := waiting[gone]; waits {
					_, actions := g.Withdraw(now, place, nil)
					delete(waiting, gone)
					take(actions)
				}
			}
			checkCounts(t, b, g.Stats(), slots)
		}
	})
}

func checkCounts(t *rapid.T, b *Bouncer, s control.Stats, slots int) {
	if b.queued != s.Queued || b.running != s.InService {
		t.Fatalf("%d queued, %d running; the Gate has %d and %d", b.queued, b.running, s.Queued, s.InService)
	}
	var work int64
	queued, running := 0, 0
	for i := range b.classes {
		c := &b.classes[i]
		queued += c.waiting
		running += c.running
		work += int64(c.waiting) * c.mean
	}
	if queued != b.queued || running != b.running || work != b.work {
		t.Fatalf("classes: %d queued, %d running, work %d; want %d, %d, %d", queued, running, b.work, b.queued, b.running, work)
	}
	if b.queued > 0 && b.running < b.parallelism && (slots == 0 || b.running < slots) {
		t.Fatalf("%d wait while %d of %d processes are busy", b.queued, b.running, b.parallelism)
	}
}
