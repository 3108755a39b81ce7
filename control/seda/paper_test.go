package seda_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/seda"
)

const (
	us     = time.Microsecond
	ms     = time.Millisecond
	target = 500 * us
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// config returns the default settings with the target of the tests.
func config() seda.Config {
	c := seda.Default()
	c.Target = target
	return c
}

// original returns the settings of USITS '03 with the target of the tests.
func original() seda.Config {
	c := config()
	c.Form = seda.Original
	return c
}

// feed lets c hear n replies of one latency, one each step.
func feed(c *seda.Client, now clock.Instant, step time.Duration, n int, latency time.Duration) clock.Instant {
	for range n {
		now = now.Add(step)
		c.Hear(now, control.Notice{Kind: control.Replied, Latency: latency, Credits: -1})
	}
	return now
}

// TestPaperFirstStep checks the first updates of both forms, number by number. The smoothed percentile begins at 0, so after 100 replies of
// 200 µs it is 0.3·200 = 60 µs, the error 60/500 − 1 = −0.88, and the rate grows by adj_i·(0.88 − 0.1). Reference: the controller of several
// classes in the published Java source, and sd_client.c in the trees of Caladan, Protego and Svalinn.
func TestPaperFirstStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		c    seda.Config
		adjI float64
	}{{"compared", config(), 5}, {"original", original(), 2}} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Initial = 100
			c := seda.NewClient(tt.c, rng(1))
			feed(c, 0, us, 100, 200*us)
			if want := 100 + tt.adjI*(0.88-0.1); math.Abs(c.Rate()-want) > 1e-9 {
				t.Errorf("rate is %v, want %v", c.Rate(), want)
			}
		})
	}
}

// TestPaperErrorBands checks what each band of the error does: above 0 the rate is divided, from −0.5 to 0 it rests, below −0.5 it grows by
// adj_i·(−err − 0.1). Reference: USITS '03, table of constants (err_i, err_d, adj_i, adj_d, c_i).
func TestPaperErrorBands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		latency time.Duration
		want    float64
	}{
		{"above the target", 501 * us, 1000 / 1.3},
		{"at the target", 500 * us, 1000},
		{"a little below", 300 * us, 1000},
		{"at half", 250 * us, 1000},
		{"far below", 125 * us, 1000 + 5*(0.75-0.1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := config()
			g.Initial, g.Smoothing = 1000, 0 // the samples themselves
			c := seda.NewClient(g, rng(1))
			feed(c, 0, us, 100, tt.latency)
			if math.Abs(c.Rate()-tt.want) > 1e-9 {
				t.Errorf("rate is %v, want %v", c.Rate(), tt.want)
			}
		})
	}
}

// TestPaperSmoothing checks that one window above the target does not cut the rate when those before it were low, α being 0.7.
// Reference: USITS '03, smoothing of the 90th percentile.
func TestPaperSmoothing(t *testing.T) {
	t.Parallel()
	g := config()
	g.Initial = 1000
	c := seda.NewClient(g, rng(1))
	now := feed(c, 0, us, 1000, 300*us) // cur is about 300 µs
	before := c.Rate()
	now = feed(c, now, us, 100, 900*us) // 0.7·300 + 0.3·900 = 480 µs
	if c.Rate() != before {
		t.Errorf("rate went from %v to %v", before, c.Rate())
	}
	feed(c, now, us, 100, 900*us) // 0.7·480 + 0.3·900 = 606 µs
	if want := before / 1.3; math.Abs(c.Rate()-want) > 1e-9 {
		t.Errorf("rate is %v, want %v", c.Rate(), want)
	}
}

// TestPaperPercentile checks which sample of a set counts: the 99th percentile of a full set of 100 is its largest in the published clients,
// and of n < 100 that the time-out found it is number (n−1)·0.99, counted from 0. The original takes the 90th. Reference: sd_client.c.
func TestPaperPercentile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		c       seda.Config
		high, n int // so many of n replies are slow
		cut     bool
	}{
		{"one of 100 slow, compared", config(), 1, 100, true},
		{"ten of 100 slow, original", original(), 10, 100, true},
		{"nine of 100 slow, original", original(), 9, 100, false},
		{"one of 50 slow, compared", config(), 1, 50, false},
		{"two of 50 slow, compared", config(), 2, 50, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Initial, tt.c.Smoothing, tt.c.Timeout = 1000, 0, time.Second
			c := seda.NewClient(tt.c, rng(1))
			now := feed(c, 0, us, tt.n-tt.high-1, 400*us)
			now = feed(c, now, us, tt.high, 900*us)
			if c.Rate() != 1000 {
				t.Fatalf("reconsidered too soon: %v", c.Rate())
			}
			feed(c, now, 2*time.Second, 1, 400*us)
			if (c.Rate() < 1000) != tt.cut {
				t.Errorf("rate is %v; cut: want %v", c.Rate(), tt.cut)
			}
		})
	}
}

// TestPaperTokenBucket checks the client's bucket: empty at first, four tokens deep, and a rate that is drawn from 2 to 4 a second and never
// falls below 2. Reference: sd_client.c and sd_config.h; the constants of the original are a depth of 1 and 0.05 a second.
func TestPaperTokenBucket(t *testing.T) {
	t.Parallel()
	low, high := math.Inf(1), 0.0
	for seed := range uint64(1000) {
		rate := seda.NewClient(config(), rng(seed)).Rate()
		low, high = min(low, rate), max(high, rate)
	}
	if low < 2 || low > 2.01 || high >= 4 || high < 3.99 {
		t.Errorf("initial rates from %v to %v, want 2 to 4", low, high)
	}
	for _, tt := range []struct {
		name   string
		c      seda.Config
		depth  int
		lowest float64
	}{{"compared", config(), 4, 2}, {"original", original(), 1, 0.05}} {
		c := seda.NewClient(tt.c, rng(1))
		if c.Permit(0, nil) != control.Wait {
			t.Errorf("%s: the bucket does not start empty", tt.name)
		}
		sent := 0
		for c.Permit(clock.Instant(time.Hour), nil) == control.Admit {
			sent++
		}
		if sent != tt.depth {
			t.Errorf("%s: %d tokens after an hour, want %d", tt.name, sent, tt.depth)
		}
		feed(c, clock.Instant(time.Hour), us, 100_000, time.Second)
		if c.Rate() != tt.lowest {
			t.Errorf("%s: lowest rate %v, want %v", tt.name, c.Rate(), tt.lowest)
		}
	}
}

// TestPaperShedRepliesAreNoSamples checks that a client learns nothing from the empty replies to dropped requests. Reference: section 4.2 of
// the notes on sd_client.c: drops are replies of no length, which the client discards.
func TestPaperShedRepliesAreNoSamples(t *testing.T) {
	t.Parallel()
	c := seda.NewClient(config(), rng(1))
	before := c.Rate()
	for i := range 1000 {
		now := clock.Instant(i) * clock.Instant(ms)
		c.Hear(now, control.Notice{Kind: control.Replied, Shed: true, Latency: time.Second, Credits: -1})
		c.Hear(now, control.Notice{Kind: control.Lost, Credits: -1})
		c.Hear(now, control.Notice{Kind: control.Parted, Credits: -1})
	}
	if c.Rate() != before {
		t.Errorf("rate went from %v to %v", before, c.Rate())
	}
}
