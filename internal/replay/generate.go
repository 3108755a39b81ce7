package replay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"spillway/internal/dist"
	"spillway/workloads"
)

// Generate describes a log that is drawn from a seed.
//
// Its arrivals are a Poisson process whose rate is
//
//	rate(t) = c · (1 + Swing·cos(2π(t − Peak)/Day)) · (Times within a burst, else 1)
//
// where c makes the mean over Length that of Rate: exactly Rate·Length requests are drawn, as independent instants with that density, but for the
// first, which is at 0: whoever reads a log counts from its first request. Bursts begin
// after exponential gaps of mean Every and last for exponential times of mean For. What is asked is drawn as by workloads.KV.
type Generate struct {
	Seed   uint64
	Length time.Duration
	Rate   float64 // requests per second, on the mean

	Swing float64       // of the day: by which share of the mean the rate rises and falls, 0 to 1
	Day   time.Duration // how long a day is
	Peak  time.Duration // when in the day the rate is highest

	Every time.Duration // between the end of a burst and the beginning of the next, on average; 0 for no bursts
	For   time.Duration // how long bursts last, on average
	Times float64       // what they multiply the rate by

	Classes []workloads.KVClass
	Mixed   []float64     // shares of the classes that theirs drift to and back from, as a cosine does; nil for no drift
	Drift   time.Duration // the period of that
}

// Bounds of what is drawn.
const (
	maxLength = 366 * 24 * time.Hour
	maxBursts = 100_000
	cells     = 1 << 13 // of the length, in each of which the day counts as even
)

// Check says what is wrong with g, beside its classes.
func (g *Generate) Check() error {
	n := g.Rate * g.Length.Seconds()
	switch {
	case g.Length < time.Microsecond || g.Length > maxLength:
		return fmt.Errorf("length %v: is between 1us and a year", g.Length)
	case !(n >= 1 && n <= workloads.MaxRecorded):
		return fmt.Errorf("rate %g over %v makes %.0f requests: must be 1 to %d", g.Rate, g.Length, n, workloads.MaxRecorded)
	case !(g.Swing >= 0 && g.Swing <= 1):
		return fmt.Errorf("swing %g: is between 0 and 1, the share of the mean by which the rate rises and falls", g.Swing)
	case g.Swing > 0 && (g.Day < g.Length/1000 || g.Day <= 0):
		return fmt.Errorf("a day of %v in a log of %v: there are at most 1000", g.Day, g.Length)
	case g.Peak < 0 || g.Swing > 0 && g.Peak > g.Day:
		return fmt.Errorf("peak %v: is an hour of the day, which has %v", g.Peak, g.Day)
	case g.Every == 0 && (g.For != 0 || g.Times != 0), g.Every != 0 && (g.For <= 0 || g.Times <= 0):
		return fmt.Errorf("bursts have all of: every, the time from one to the next, for, how long they last, and times, what they multiply the rate by")
	case g.Every < 0 || g.Every > 0 && float64(g.Length)/float64(g.Every+g.For) > maxBursts:
		return fmt.Errorf("bursts every %v in a log of %v: there are at most %d", g.Every, g.Length, maxBursts)
	case g.Times > 1e6:
		return fmt.Errorf("bursts of %g times the rate: at most a million", g.Times)
	}
	for i := range g.Classes {
		c := &g.Classes[i]
		if c.WriteBack != "" || c.Expire != 0 {
			return fmt.Errorf("class %q: a log has neither write_back nor expire: it says what was asked, misses and what followed them included", c.Name)
		}
	}
	if g.Mixed != nil && g.Drift <= 0 {
		return fmt.Errorf("a drift has a period")
	}
	return nil
}

// workload returns what is asked.
func (g *Generate) workload() (*workloads.KV, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	kv, err := workloads.NewKV(g.Classes)
	if err != nil || g.Mixed == nil {
		return kv, err
	}
	own := make([]float64, len(g.Classes))
	for i := range g.Classes {
		own[i] = g.Classes[i].Share
	}
	drift, err := workloads.SharesDrifting(0, g.Drift, own, g.Mixed)
	if err != nil {
		return nil, err
	}
	return kv, kv.Vary(drift)
}

// Burst is a stretch of time with a higher rate.
type Burst struct{ From, To time.Duration }

// Bursts returns the bursts within the log, in order.
func (g *Generate) Bursts() (list []Burst) {
	if g.Every == 0 {
		return nil
	}
	rng := dist.Stream(g.Seed, "bursts of a log", 0)
	at := 0.0
	for len(list) < 2*maxBursts {
		at += rng.ExpFloat64() * float64(g.Every)
		if at >= float64(g.Length) {
			break
		}
		b := Burst{From: time.Duration(at)}
		at = min(at+max(rng.ExpFloat64()*float64(g.For), 1), float64(g.Length))
		b.To = time.Duration(at)
		list = append(list, b)
	}
	return list
}

// density is the cumulated rate over time, in pieces within which it is even.
type density struct {
	edges []float64 // ns; one more than there are pieces
	sums  []float64 // of the area up to each edge, in ns of the mean rate before c
	piece int       // that the last instant lay in
}

func (g *Generate) density() *density {
	d := &density{}
	for i := range cells + 1 {
		d.edges = append(d.edges, float64(g.Length)*float64(i)/cells)
	}
	bursts := g.Bursts()
	for _, b := range bursts {
		d.edges = append(d.edges, float64(b.From), float64(b.To))
	}
	slices.Sort(d.edges)
	d.edges = slices.Compact(d.edges)
	d.sums = make([]float64, len(d.edges))
	n := 0
	for i := range len(d.edges) - 1 {
		from, to := d.edges[i], d.edges[i+1]
		area := to - from
		if g.Swing > 0 {
			angle := 2 * math.Pi / float64(g.Day)
			area += g.Swing / angle * (math.Sin(angle*(to-float64(g.Peak))) - math.Sin(angle*(from-float64(g.Peak))))
		}
		for n < len(bursts) && float64(bursts[n].To) <= from {
			n++
		}
		if n < len(bursts) && float64(bursts[n].From) <= from {
			area *= g.Times
		}
		d.sums[i+1] = d.sums[i] + max(area, 0)
	}
	return d
}

func (d *density) total() float64 { return d.sums[len(d.sums)-1] }

// at returns where the area is reached. Areas must not decrease from call to call.
func (d *density) at(area float64) float64 {
	for d.piece < len(d.sums)-2 && d.sums[d.piece+1] <= area {
		d.piece++
	}
	i := d.piece
	if height := d.sums[i+1] - d.sums[i]; height > 0 {
		return d.edges[i] + (d.edges[i+1]-d.edges[i])*min((area-d.sums[i])/height, 1)
	}
	return d.edges[i]
}

// Each draws the log and calls visit with its rows, each valid until the next. The same description gives the same rows.
func (g *Generate) Each(visit func(*Row) error) error {
	kv, err := g.workload()
	if err != nil {
		return err
	}
	kv.WithoutValues()
	d := g.density()
	if d.total() == 0 {
		return errors.New("the rate is 0 all the time")
	}
	times, asks := dist.Stream(g.Seed, "instants of a log", 0), dist.Stream(g.Seed, "operations of a log", 0)
	draw := drawn{kv: kv, gone: map[string]bool{}}
	area := 0.0
	n := int64(math.Round(g.Rate * g.Length.Seconds()))
	for left := n; left > 0; left-- {
		if left < n { // of so many uniform numbers the smallest lies where the others are all above it (see package arrival)
			area += (d.total() - area) * -math.Expm1(-times.ExpFloat64()/float64(left))
			draw.row.At = min(time.Duration(d.at(area)), g.Length-1)
		}
		kv.Shift(draw.row.At)
		draw.next(asks)
		draw.row.Class = append(draw.row.Class[:0], g.Classes[draw.op.Class].Name...)
		if err := visit(&draw.row); err != nil {
			return err
		}
	}
	return nil
}

// drawn makes rows of operations, and follows which keys have been deleted: a read of one finds nothing.
type drawn struct {
	kv   *workloads.KV
	op   workloads.Op
	row  Row
	gone map[string]bool
}

func (d *drawn) next(rng *rand.Rand) {
	d.kv.Next(rng, &d.op)
	r := &d.row
	r.Entry.Class, r.Kind = int(d.op.Class), d.op.Kind
	r.Keys = append(append(r.Keys[:0], d.op.Key), d.op.More...)
	r.Sizes = d.kv.AppendSizes(r.Sizes[:0], &d.op)
	for i, key := range r.Keys {
		switch {
		case d.op.Kind == workloads.Set:
			delete(d.gone, string(key))
		case d.gone[string(key)]:
			r.Sizes[i] = workloads.NoValue
		case d.op.Kind == workloads.Delete:
			d.gone[string(key)] = true
		}
	}
}

// Trace draws the log into memory.
func (g *Generate) Trace() (*Trace, error) {
	names, prefixes := make([]string, len(g.Classes)), make([]string, len(g.Classes))
	for i := range g.Classes {
		names[i], prefixes[i] = g.Classes[i].Name, g.Classes[i].KeyPrefix
		if prefixes[i] == "" {
			prefixes[i] = names[i] + "-"
		}
	}
	rec := workloads.NewRecorder(names)
	var times []time.Duration
	err := g.Each(func(row *Row) error {
		times = append(times, row.At)
		return rec.Add(&row.Entry)
	})
	if err != nil {
		return nil, err
	}
	recording := rec.Recording()
	if tellApart(g.Classes) {
		recording.Prefixes = prefixes
	}
	return newTrace(recording, times, g.Length)
}

// tellApart reports whether the keys of the classes say of which class they are.
func tellApart(classes []workloads.KVClass) bool {
	kv, err := workloads.NewKV(classes)
	if err != nil {
		return false
	}
	_, err = kv.Patterns()
	return err == nil
}
