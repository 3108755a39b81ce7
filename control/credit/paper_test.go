package credit

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

// crowd registers n clients.
func crowd(p *Pool, n int) {
	for id := range uint32(n) {
		p.Demand(0, id, 0)
	}
}

// TestPaperBreakwaterGrowth: below the threshold the pool grows by 0.001 for each client in each round trip, whatever the pace at which the
// delay is measured. Reference: Breakwater, section 4.1 and the authors' code.
func TestPaperBreakwaterGrowth(t *testing.T) {
	t.Parallel()
	c, err := DefaultBreakwater().For(slo)
	if err != nil {
		t.Fatal(err)
	}
	for _, every := range []clock.Instant{10 * us, 13 * us, 100 * us} {
		b := NewBreakwater(c, 10)
		crowd(&b.Pool, 100)
		for now := every; now <= 13*ms; now += every {
			b.adapt(now, c.Threshold-1)
		}
		if got := b.size; got < 10+129 || got > 10+130 { // 1300 round trips of 0.1 credits
			t.Errorf("measured every %v: %d credits after 13 ms", every, got)
		}
	}
}

// TestPaperBreakwaterDecrease: above the threshold the pool shrinks in proportion to the excess, by half at most and by one at least, once in a round
// trip. Reference: Breakwater, section 4.1; the code of Svalinn's artifact for the least step.
func TestPaperBreakwaterDecrease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		delay      time.Duration
		size, want int
	}{
		{"at the threshold", 200 * time.Microsecond, 1000, 999},
		{"twice the threshold", 400 * time.Microsecond, 1000, 980},
		{"ten times the threshold", 2 * time.Millisecond, 1000, 820},
		{"far above it", time.Second, 1000, 500},
		{"a small pool", 400 * time.Microsecond, 20, 19},
		{"the smallest pool", time.Second, 10, 10},
	} {
		config, err := DefaultBreakwater().For(slo)
		if err != nil {
			t.Fatal(err)
		}
		b := NewBreakwater(config, 10)
		crowd(&b.Pool, 100)
		b.resize(c.size)
		b.carry = 0.9
		b.adapt(10*us, c.delay)
		b.adapt(10*us+1, c.delay)
		if b.size != c.want || b.carry != 0 {
			t.Errorf("%s: from %d to %d with %v carried, want %d", c.name, c.size, b.size, b.carry, c.want)
		}
	}
}

// TestPaperBudgets: thresholds and budgets that follow the SLO are those of the published configurations where those follow it themselves.
// Reference: breakwater-artifact, with SLO = 10·(10 µs + 10 µs); svalinn-shenango, netbench.
func TestPaperBudgets(t *testing.T) {
	t.Parallel()
	const usec = time.Microsecond
	b, err := DefaultBreakwater().For(200 * usec)
	if err != nil || b.Threshold != 80*usec || b.AQM != 160*usec {
		t.Errorf("breakwater with an SLO of 200 µs: %v and %v, %v", b.Threshold, b.AQM, err)
	}
	p, err := DefaultProtego().For(500 * usec)
	if err != nil || p.Budget != 200*usec {
		t.Errorf("protego with an SLO of 500 µs: %v, %v", p.Budget, err)
	}
	s, err := DefaultSvalinn().For(500 * usec)
	if err != nil || s.Budget != 200*usec {
		t.Errorf("svalinn with an SLO of 500 µs: %v, %v", s.Budget, err)
	}
	own := DefaultSvalinn()
	own.Budget = 440 * usec
	if s, err := own.For(0); err != nil || s.Budget != 440*usec {
		t.Errorf("svalinn with a budget of its own: %v, %v", s.Budget, err)
	}
	const want = "budget is 0, which stands for 0.4 of the SLO, and no SLO is known here; set budget"
	if _, err := DefaultSvalinn().For(0); err == nil || err.Error() != want {
		t.Errorf("svalinn without budget and SLO: %v", err)
	}
}

// TestPaperProtegoRule checks when the pool grows: each additional request brings 1/K completions at least, and the pool is in use; with fewer
// requests, when completions fell by more than their share. Reference: Protego, section 4.1, as in the authors' code.
func TestPaperProtegoRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, out, prevIn, prevOut int
		idle                     bool
		want                     bool
	}{
		{in: 0, prevIn: 50, prevOut: 50, idle: true, want: true}, // nothing arrives
		{in: 60, out: 51, prevIn: 50, prevOut: 50, want: true},   // exactly one completion for ten requests
		{in: 61, out: 51, prevIn: 50, prevOut: 50, want: false},  // less than that
		{in: 50, out: 51, prevIn: 50, prevOut: 50, want: true},   // more for the same
		{in: 50, out: 50, prevIn: 50, prevOut: 50, want: false},  // the same
		{in: 60, out: 49, prevIn: 50, prevOut: 50, want: false},  // fewer for more
		{in: 60, out: 60, prevIn: 50, prevOut: 50, idle: true, want: false},
		{in: 40, out: 48, prevIn: 50, prevOut: 50, want: true},  // completions fell by two for ten
		{in: 40, out: 49, prevIn: 50, prevOut: 50, want: false}, // by one for ten: those requests were not worth it
		{in: 40, out: 50, prevIn: 50, prevOut: 50, want: false},
		{in: 40, out: 40, prevIn: 50, prevOut: 50, idle: true, want: false},
	} {
		config, err := DefaultProtego().For(slo)
		if err != nil {
			t.Fatal(err)
		}
		p := NewProtego(config, 2)
		crowd(&p.Pool, 3)
		if !c.idle {
			p.grant(p.clients[0], 2)
		}
		p.in, p.out, p.prevIn, p.prevOut = c.in, c.out, c.prevIn, c.prevOut
		if got := p.worthMore(); got != c.want {
			t.Errorf("%+v: grows %v", c, got)
		}
	}
}

// TestPaperProtegoWindow: after a change nothing counts for the time of skip, and the next change is due after update. Reference: as above.
func TestPaperProtegoWindow(t *testing.T) {
	t.Parallel()
	config, err := DefaultProtego().For(slo)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProtego(config, 2)
	crowd(&p.Pool, 5000)
	p.resize(100)
	ask := func(now clock.Instant) {
		r := control.Request{Client: 0}
		d := p.Decide(now, control.AtArrival, &r)
		r.Tag = d.Tag
		p.Observe(now, control.Event{Kind: control.Finished, Request: r})
	}
	for now := 10 * us; now < 400*us; now += 10 * us {
		ask(now)
	}
	if p.in != 20 || p.out != 20 || p.size != 100 { // those at 200, 210, … 390 µs
		t.Fatalf("in %d, out %d, %d credits before the update", p.in, p.out, p.size)
	}
	p.grant(p.clients[0], 63)
	p.grant(p.clients[1], 63)
	ask(400 * us)
	if p.size != 105 || p.prevIn != 20 || p.prevOut != 20 { // 0.001 for each of 5000 clients
		t.Errorf("%d credits after a window of %d in and %d out", p.size, p.prevIn, p.prevOut)
	}
	if next := p.Tick(410*us, control.Signals{}); next != 600*us {
		t.Errorf("the next tick is at %v", next)
	}
	if next := p.Tick(600*us, control.Signals{}); next != 800*us {
		t.Errorf("the tick after that is at %v", next)
	}
}
