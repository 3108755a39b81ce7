package staging_test

import (
	"slices"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/staging"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/sim"
	"spillway/workloads"
)

// The experiment of the article, as a simulation: normally mailboxes hold about 100 MB, then four times as many are asked for. Half of the
// machine's RAM, 200 MB, is where the staging queue stops.
const (
	ram    = 400_000_000
	normal = 290. // requests a second
	warmUp = 5 * time.Second
	window = 60 * time.Second
)

// settings are those of the profile staging-mailbox.
func settings() staging.Config {
	c := staging.Default()
	c.Normal, c.Slow, c.Resume, c.Stop = 0.3, 0.35, 0.4, 0.5
	return c
}

// bulge is the normal rate, four times as much for 8 s, and the normal rate again.
const bulge = "steps:1@10s,4@8s,1@42s"

// watched is a controller that notes the most that it has started between two looks.
type watched struct {
	*staging.Staging
	starts, most int
}

func (w *watched) Observe(now clock.Instant, e control.Event) {
	if e.Kind == control.Started {
		w.starts++
		w.most = max(w.most, w.starts)
	}
	w.Staging.Observe(now, e)
}

func (w *watched) Tick(now clock.Instant, s control.Signals) clock.Instant {
	w.starts = 0
	return w.Staging.Tick(now, s)
}

func watch(c staging.Config, exempt ...uint16) *watched {
	return &watched{Staging: staging.New(c, exempt...)}
}

// offered is what a test offers.
type offered struct {
	seed    uint64
	shape   string
	slo     time.Duration
	classes []workloads.MailboxClass // beside the mailboxes
}

// course is what was seen of one run.
type course struct {
	sim.Result
	all    load.ClassTally
	peak   int64   // of RAM held
	before float64 // mean of it in the first 10 s
	queued []int   // in the Gate, each 10 ms of the window
}

func (o offered) run(t *testing.T, c control.Controller) course {
	t.Helper()
	boxes := 1.
	for _, k := range o.classes {
		boxes -= k.Share
	}
	classes := append([]workloads.MailboxClass{{Name: "mail", Share: boxes, Boxes: 100_000}}, o.classes...)
	var tallied []load.Class
	for _, k := range classes {
		tallied = append(tallied, load.Class{Name: k.Name, SLO: o.slo})
	}
	w, err := workloads.NewMailboxLoad(workloads.DefaultMailboxes(), classes)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, err := arrival.Make(arrival.Config{Arrivals: "poisson", Shape: o.shape, Rate: normal, WarmUp: warmUp, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	from, end := clock.Instant(warmUp), clock.Instant(warmUp+window)
	gen, err := load.NewGenerator(load.Config{Seed: o.seed, Clients: 16, Workload: w, Arrivals: arrivals, End: end})
	if err != nil {
		t.Fatal(err)
	}
	var r course
	var before, samples float64
	tally := load.NewTally(tallied, from, end)
	r.Result, err = sim.Run(sim.Config{
		Station: station.Config{Controller: c, Machine: machine.Spec{Cores: 2, Network: 50 * time.Microsecond, RAM: ram}},
		Costs:   sim.OwnSteps{}, Generator: gen, Tally: tally, Timeout: 30 * time.Second, Drain: 40 * time.Second,
		SamplePeriod: 10 * time.Millisecond,
		Sample: func(s sim.Sample) {
			held := s.Station.Machine().RAM()
			r.peak = max(r.peak, held)
			if s.Now < from.Add(10*time.Second) {
				before += float64(held)
				samples++
			}
			r.queued = append(r.queued, s.Station.Gate().Stats().Queued)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
	r.before, r.all = before/samples, tally.All()
	return r
}

// TestBulge: without control every run ends with the death of the server; with the staging queue none does, memory stays under the bound of the
// reference, the queue keeps its own and drains, and the server goes on serving.
func TestBulge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		o := offered{seed: seed, shape: bulge, slo: 10 * time.Second}
		if r := o.run(t, control.None{}); r.Died == clock.Never {
			t.Errorf("seed %d: survived without control, at %d MB", seed, r.peak/1e6)
		}
		c := settings()
		w := watch(c)
		r := o.run(t, w)
		stop := int64(c.Stop * ram)
		largest := workloads.DefaultMailboxes().Largest
		longest, last := slices.Max(r.queued), r.queued[len(r.queued)-1]
		t.Logf("seed %d: normally %.0f MB, at most %d MB, %d started between two looks, %d queued at most and %d at the end, %d of %d served",
			seed, r.before/1e6, r.peak/1e6, w.most, longest, last, r.all.Completed(), r.Arrivals)
		switch {
		case r.Died != clock.Never:
			t.Errorf("seed %d: died at %v", seed, time.Duration(r.Died))
		case r.before < 70e6 || r.before > 130e6:
			t.Errorf("seed %d: %.0f MB are held normally, want about 100", seed, r.before/1e6)
		case r.peak > stop+int64(w.most)*largest:
			t.Errorf("seed %d: %d bytes at most, the bound is %d", seed, r.peak, stop+int64(w.most)*largest)
		case r.peak > stop+stop/4:
			t.Errorf("seed %d: %d MB at most, more than a quarter above the %d MB at which it stops", seed, r.peak/1e6, stop/1e6)
		case longest > c.Queue || longest < 1000:
			t.Errorf("seed %d: %d queued at most", seed, longest)
		case last > 5:
			t.Errorf("seed %d: %d are still queued at the end", seed, last)
		case float64(r.all.Completed()) < 0.85*float64(r.Arrivals):
			t.Errorf("seed %d: %d of %d served", seed, r.all.Completed(), r.Arrivals)
		}
	}
}

// TestOptimalLoad: under the normal load the queue is as good as empty.
func TestOptimalLoad(t *testing.T) {
	t.Parallel()
	c := settings()
	c.Normal, c.Slow, c.Resume, c.Stop = 0.6, 0.7, 0.75, 0.85 // the bulges of the normal load stay below
	r := offered{seed: 1, slo: time.Second}.run(t, watch(c))
	if longest := slices.Max(r.queued); longest > 0 || r.all.Completed() != r.Arrivals {
		t.Errorf("%d queued at most, %d of %d served", longest, r.all.Completed(), r.Arrivals)
	}
}

// TestOrders: under an overload that lasts, the newest first serve in time what the oldest first serve late. The adaptive order does as the
// one in an overload.
func TestOrders(t *testing.T) {
	t.Parallel()
	good := map[string]float64{}
	for _, order := range []string{staging.FIFO, staging.LIFO, staging.Adaptive} {
		c := settings()
		c.Order, c.MaxAge = order, 20*time.Second
		r := offered{seed: 3, shape: "steps:3@60s", slo: 2 * time.Second}.run(t, watch(c))
		if r.Died != clock.Never {
			t.Errorf("%s: died", order)
		}
		good[order] = float64(r.all.Fates[reqlog.OK]) / float64(r.Arrivals)
		t.Logf("%s: %.0f %% in time, %d late, fates %v", order, 100*good[order], r.all.Fates[reqlog.Late], r.all.Fates)
	}
	if good[staging.FIFO] > 0.1 || good[staging.LIFO] < 0.3 || good[staging.Adaptive] < 0.3 {
		t.Errorf("in time %v: want few with fifo, and a third and more with the others", good)
	}
}

// TestRival is the article's caveat: memory that another program takes is no request that could be held back. Where it fits beside what is
// already in service, the server serves less; where it does not, no gate helps.
func TestRival(t *testing.T) {
	t.Parallel()
	rival := func(size float64) course {
		return offered{seed: 2, slo: 10 * time.Second, classes: []workloads.MailboxClass{{
			Name: "rival", Share: 0.0002,
			Bytes: dist.Constant{Unit: dist.Bytes, Value: size}, Hold: dist.Constant{Value: float64(5 * time.Second)},
		}}}.run(t, watch(settings(), 1))
	}
	small, large := rival(150e6), rival(330e6)
	t.Logf("150 MB: at most %d MB, %d of %d served; 330 MB: died at %v", small.peak/1e6, small.all.Completed(), small.Arrivals, time.Duration(large.Died))
	if small.Died != clock.Never {
		t.Error("a rival that fits killed the server")
	}
	if slices.Max(small.queued) < 500 {
		t.Errorf("%d queued at most: the rival was not noticed", slices.Max(small.queued))
	}
	if large.Died == clock.Never {
		t.Error("a rival that does not fit did not kill the server, although no gate can help there")
	}
}
