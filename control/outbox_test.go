package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
)

// script is a Throttle that answers what a test wants it to.
type script struct {
	verdict func(now clock.Instant, r *control.Outgoing) control.Verdict
	next    func(now clock.Instant) clock.Instant
	asks    func(waiting int) bool
	heard   []control.Notice
}

func (s *script) Permit(now clock.Instant, r *control.Outgoing) control.Verdict {
	return s.verdict(now, r)
}
func (s *script) Hear(_ clock.Instant, n control.Notice) { s.heard = append(s.heard, n) }
func (s *script) Next(now clock.Instant) clock.Instant {
	if s.next == nil {
		return clock.Never
	}
	return s.next(now)
}
func (s *script) Ask(_ clock.Instant, waiting int) bool { return s.asks != nil && s.asks(waiting) }

// always returns a Throttle with one answer.
func always(v control.Verdict) *script {
	return &script{verdict: func(clock.Instant, *control.Outgoing) control.Verdict { return v }}
}

func dispatches(list []control.Dispatch) (texts []string) {
	for _, d := range list {
		texts = append(texts, fmt.Sprintf("%s %d demand %d", [...]string{"send", "shun", "inform"}[d.Kind], d.Token, d.Demand))
	}
	return texts
}

func TestOutboxOrder(t *testing.T) {
	t.Parallel()
	s := always(control.Wait)
	o := control.NewOutbox(s, control.OutboxConfig{Queue: 3, MaxAge: 10 * time.Microsecond})
	offer := func(now clock.Instant, token uint64) []string {
		return dispatches(o.Offer(now, control.Outgoing{Token: token}, nil))
	}
	const us = clock.Instant(time.Microsecond)
	for _, c := range []struct {
		now   clock.Instant
		token uint64
		want  []string
	}{
		{0, 1, nil}, {1 * us, 2, nil}, {2 * us, 3, nil},
		{3 * us, 4, []string{"shun 1 demand 0"}}, // full: the oldest has waited long enough to be the least worth
		{11*us - 1, 5, []string{"shun 2 demand 0"}},
		{13 * us, 6, []string{"shun 3 demand 0", "shun 4 demand 0"}}, // as old as they may be
	} {
		if got := offer(c.now, c.token); !slices.Equal(got, c.want) {
			t.Errorf("%v offer %d: %v, want %v", c.now, c.token, got, c.want)
		}
	}
	if next := o.Next(); next != 21*us-1 {
		t.Errorf("the next one is due at %v", next)
	}
	s.next = func(clock.Instant) clock.Instant { return 15 * us }
	if next := o.Next(); next != 15*us {
		t.Errorf("the throttle wants to be asked at 15 µs, the outbox at %v", next)
	}
	s.verdict = func(_ clock.Instant, r *control.Outgoing) control.Verdict {
		if r.Token == 5 {
			return control.Reject
		}
		return control.Admit
	}
	n := control.Notice{Kind: control.Replied, Credits: 7}
	want := []string{"shun 5 demand 1", "send 6 demand 0"}
	if got := dispatches(o.Hear(16*us, n, nil)); !slices.Equal(got, want) || o.Len() != 0 {
		t.Errorf("%v, want %v", got, want)
	}
	if diff := cmp.Diff([]control.Notice{n}, s.heard); diff != "" {
		t.Error(diff)
	}
	if next := o.Next(); next != clock.Never {
		t.Errorf("an empty outbox wants to be called at %v", next)
	}
}

// TestOutboxAsks: the Throttle is asked about a question after everything that may change its mind, and told how many wait behind.
func TestOutboxAsks(t *testing.T) {
	t.Parallel()
	s := always(control.Wait)
	var seen []int
	s.asks = func(waiting int) bool {
		seen = append(seen, waiting)
		return waiting == 2
	}
	o := control.NewOutbox(s, control.OutboxConfig{})
	o.Offer(0, control.Outgoing{Token: 1}, nil)
	got := dispatches(o.Offer(0, control.Outgoing{Token: 2}, nil))
	if want := []string{"inform 0 demand 2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.verdict = always(control.Admit).verdict
	o.Tick(1, nil)
	if !slices.Contains(seen, 2) || seen[len(seen)-1] != 0 {
		t.Errorf("asked with %v waiting", seen)
	}
}

func TestOutboxRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, c := range []control.OutboxConfig{{Queue: -1}, {MaxAge: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", c)
				}
			}()
			control.NewOutbox(always(control.Wait), c)
		}()
	}
}

// TestOutboxKeepsBooks: every request leaves once, sent or refused, in the order in which it came; no more wait than may, nobody longer than
// allowed once the outbox has been called when it wanted to be, and each is sent with the number of those behind it.
func TestOutboxKeepsBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		config := control.OutboxConfig{
			Queue:  rapid.IntRange(0, 5).Draw(t, "queue"),
			MaxAge: time.Duration(rapid.IntRange(0, 10).Draw(t, "max age")),
		}
		s := &script{
			verdict: func(clock.Instant, *control.Outgoing) control.Verdict {
				return rapid.SampledFrom([]control.Verdict{control.Admit, control.Wait, control.Wait, control.Reject}).Draw(t, "verdict")
			},
			asks: func(int) bool { return rapid.Bool().Draw(t, "asks") },
		}
		o := control.NewOutbox(s, config)
		var now clock.Instant
		var waiting []uint64
		since := make(map[uint64]clock.Instant)
		token := uint64(0)
		for range rapid.IntRange(1, 100).Draw(t, "events") {
			now += clock.Instant(rapid.IntRange(0, 6).Draw(t, "pause"))
			var list []control.Dispatch
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 4: // anybody, who waits or not
				who := uint64(rapid.IntRange(0, int(token)).Draw(t, "who"))
				at := slices.Index(waiting, who)
				var found bool
				if found, list = o.Withdraw(now, who, nil); found != (at >= 0) {
					t.Fatalf("%d was found: %v, while %v wait", who, found, waiting)
				}
				if !found {
					continue // and nothing has been done
				}
				waiting = slices.Delete(waiting, at, at+1)
			case 0, 1:
				token++
				waiting, since[token] = append(waiting, token), now
				list = o.Offer(now, control.Outgoing{Token: token}, nil)
			case 2:
				list = o.Hear(now, control.Notice{}, nil)
			case 3:
				list = o.Tick(now, nil)
			}
			for _, d := range list {
				if d.Kind == control.Inform {
					continue
				}
				if len(waiting) == 0 || waiting[0] != d.Token {
					t.Fatalf("%v leaves while %v wait", d, waiting)
				}
				waiting = waiting[1:]
			}
			if o.Len() != len(waiting) || config.Queue > 0 && o.Len() > config.Queue {
				t.Fatalf("%d wait, want %d", o.Len(), len(waiting))
			}
			if len(waiting) > 0 && config.MaxAge > 0 {
				due := since[waiting[0]].Add(config.MaxAge)
				if due <= now || o.Next() > due {
					t.Fatalf("at %d one waits that may until %d, and the outbox wants to be called at %v", now, due, o.Next())
				}
			}
		}
	})
}
