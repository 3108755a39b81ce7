package html

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"spillway/report"
)

// Bounds on what a page keeps of a trace. A page that nobody can open shows nobody anything; what is left out is in trace.csv, and the page says so.
const (
	traceFile   = "trace.csv"
	traceBudget = 1_000_000 // samples of all series together
	mostSamples = 2000      // of a series: more than a screen has columns
	leastBucket = 32        // samples of a series; with fewer it is not worth drawing
)

// traceData are the time series of a run.
type traceData struct {
	Why    string        `json:"why,omitempty"`  // there are none
	Note   string        `json:"note,omitempty"` // what was left out
	Names  []meterData   `json:"names,omitempty"`
	Times  []any         `json:"x,omitempty"` // vectors of times: [t, …], or {a, d, n} of n times from a on, d apart
	Points []tracedPoint `json:"points,omitempty"`
	Phases []phasesData  `json:"phases,omitempty"`
}

type meterData struct {
	Name  string `json:"n"`
	Unit  string `json:"u"`
	Class string `json:"c,omitempty"`
}

type tracedPoint struct {
	Variant string  `json:"v"`
	Label   int     `json:"l"`
	Load    string  `json:"o"`
	Repeat  int     `json:"r"`
	Valid   int     `json:"ok"`
	Series  [][]any `json:"s"` // meter, times, values, how many samples they are of
}

type phasesData struct {
	Variant string  `json:"v"`
	Begin   [][]any `json:"b"` // µs, what changes
}

type steps struct {
	From  float64 `json:"a"`
	Every float64 `json:"d"`
	Count int     `json:"n"`
}

// seriesKey names a series of a point, pointKey's fields written flat since it is looked up for every line of a trace.
type seriesKey struct {
	point pointKey
	meter meterData
}

// series is one time series while it is read: buckets of equal length, of each the least and the largest sample, so that no peak is lost.
type series struct {
	key      seriesKey
	count    int
	from, to float64
	buckets  int // 0: every sample is kept
	kept     []sample
	at       int // the bucket being filled
	low      sample
	high     sample
	filled   bool
}

type sample struct{ t, v float64 }

// trace adds the time series. Where they cannot be read the page says so: all else is still worth having.
func (d *runData) trace(run *report.Run) {
	d.Trace = &traceData{}
	if err := d.readTrace(run, d.Trace); err != nil {
		text := strings.ReplaceAll(err.Error(), filepath.Join(run.Dir, traceFile), traceFile) // wherever it lies, the page is the same
		d.Trace = &traceData{Why: "There are no time series: " + clean(text) + "."}
	}
}

// readTrace reads the time series twice: first how many there are and how long, then their samples.
func (d *runData) readTrace(run *report.Run, t *traceData) error {
	path := filepath.Join(run.Dir, traceFile)
	if _, err := os.Stat(path); run.Dir == "" || errors.Is(err, fs.ErrNotExist) {
		t.Why = "There are no time series: the results have no " + traceFile + ". It appears when a run ends."
		return nil
	}
	all := map[seriesKey]*series{}
	var order []*series
	err := report.ReadTrace(path, func(s *report.Traced) error {
		key := seriesKey{pointKey{s.Variant(), s.Controller, s.OfferedTarget, s.Repeat}, meterData{s.Name, s.Unit, s.Class}}
		one := all[key]
		if one == nil {
			key = key.kept()
			one = &series{key: key, from: s.TimeUS, to: s.TimeUS}
			all[key], order = one, append(order, one)
		}
		one.count++
		one.from, one.to = min(one.from, s.TimeUS), max(one.to, s.TimeUS)
		return nil
	})
	if err != nil {
		return err
	}
	if len(order) == 0 {
		t.Why = "There are no time series: " + traceFile + " has no sample."
		return nil
	}
	kept := plan(order, t)
	err = report.ReadTrace(path, func(s *report.Traced) error {
		key := seriesKey{pointKey{s.Variant(), s.Controller, s.OfferedTarget, s.Repeat}, meterData{s.Name, s.Unit, s.Class}}
		if v, ok := s.Value.Get(); ok {
			if one := all[key]; one != nil { // somebody may have written on in between
				one.add(sample{s.TimeUS, v})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.traced(run, t, kept)
	return nil
}

// kept returns the key with strings of its own: those that a reader of CSV hands out keep its whole line.
func (k seriesKey) kept() seriesKey {
	for _, s := range []*string{&k.point.variant, &k.point.controller, &k.point.target, &k.meter.Name, &k.meter.Unit, &k.meter.Class} {
		*s = string([]byte(*s))
	}
	return k
}

// plan shares the budget among the series: all of a short one, a bucket's least and largest sample of a long one. When not even that fits, the points
// that come last have none.
func plan(order []*series, t *traceData) []*series {
	most := min(mostSamples, traceBudget/len(order))
	if most < leastBucket {
		most = leastBucket
		fit := traceBudget / leastBucket
		left := map[pointKey]bool{}
		for _, s := range order[fit:] {
			left[s.key.point] = true
			s.count, s.buckets = 0, -1
		}
		order = order[:fit]
		t.Note = fmt.Sprintf("The time series of %d points are not in this page, which would be too large; they are in %s. ", len(left), traceFile)
	}
	thinned, longest := 0, 0
	for _, s := range order {
		if s.count > most {
			s.buckets = max(1, most/2)
			thinned++
			longest = max(longest, s.count)
		}
	}
	if thinned > 0 {
		t.Note += fmt.Sprintf("%d of %d series have more samples (up to %d) than can be seen: of each of %d stretches of time their least and their largest are drawn, so every peak is there.",
			thinned, len(order), longest, max(1, most/2))
	}
	return order
}

// add takes the next sample.
func (s *series) add(x sample) {
	switch {
	case s.buckets < 0:
		return
	case s.buckets == 0:
		s.kept = append(s.kept, x)
		return
	}
	at := 0
	if s.to > s.from {
		at = min(int((x.t-s.from)/(s.to-s.from)*float64(s.buckets)), s.buckets-1)
	}
	if s.filled && at != s.at {
		s.flush()
	}
	if !s.filled {
		s.at, s.low, s.high, s.filled = at, x, x, true
		return
	}
	if x.v < s.low.v {
		s.low = x
	}
	if x.v > s.high.v {
		s.high = x
	}
}

// flush ends a bucket.
func (s *series) flush() {
	if !s.filled {
		return
	}
	first, second := s.low, s.high
	if second.t < first.t {
		first, second = second, first
	}
	s.kept = append(s.kept, first)
	if second != first {
		s.kept = append(s.kept, second)
	}
	s.filled = false
}

// gap is the time without a sample from which on a line is broken.
func (s *series) gap() float64 {
	if s.count < 3 {
		return math.Inf(1)
	}
	every := (s.to - s.from) / float64(s.count-1)
	if s.buckets > 0 {
		every = max(every, (s.to-s.from)/float64(s.buckets))
	}
	return 4 * every
}

// vectors returns the times and values to be drawn, with an unknown value in every gap.
func (s *series) vectors() (times []float64, values []any) {
	gap := s.gap()
	for i, x := range s.kept {
		if i > 0 && x.t-s.kept[i-1].t > gap {
			times, values = append(times, (x.t+s.kept[i-1].t)/2), append(values, nil)
		}
		times, values = append(times, x.t), append(values, short(x.v))
	}
	return times, values
}

// short keeps seven digits of a number, more than any screen shows.
func short(v float64) float64 {
	if v == math.Trunc(v) && math.Abs(v) < 1e9 {
		return v
	}
	n, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 7, 64), 64)
	if err != nil {
		return v
	}
	return n
}

// traced puts the series in order: by point and meter.
func (d *runData) traced(run *report.Run, t *traceData, list []*series) {
	meters, vectors, points := map[meterData]int{}, map[string]int{}, map[pointKey]int{}
	loads := map[string]string{} // as tables write them, by target
	for i := range run.Rows {
		rps, _ := run.Rows[i].OfferedTargetRPS.Get()
		loads[run.Rows[i].OfferedTargetRPS.String()] = loadText(run.Rows[i].Load(), rps)
	}
	for _, s := range list {
		s.flush()
		if len(s.kept) == 0 {
			continue
		}
		at, ok := points[s.key.point]
		if !ok {
			at = len(t.Points)
			points[s.key.point] = at
			valid, known := d.pointsOK[s.key.point]
			load := loads[s.key.point.target]
			if load == "" {
				load = s.key.point.target
			}
			t.Points = append(t.Points, tracedPoint{
				Variant: clean(s.key.point.variant), Label: d.label(s.key.point.controller, report.Look{Colour: "#7f7f7f", Marker: "circle"}, false),
				Load: clean(load), Repeat: s.key.point.repeat, Valid: flag(valid || !known),
			})
		}
		meter, ok := meters[s.key.meter]
		if !ok {
			meter = len(t.Names)
			meters[s.key.meter] = meter
			t.Names = append(t.Names, meterData{clean(s.key.meter.Name), clean(s.key.meter.Unit), clean(s.key.meter.Class)})
		}
		times, values := s.vectors()
		p := &t.Points[at]
		p.Series = append(p.Series, []any{meter, t.times(vectors, times), values, s.count})
	}
	t.phases(run)
}

// times returns the number of a vector of times; those that are the same, as of all meters of a server, are there once.
func (t *traceData) times(known map[string]int, times []float64) int {
	var text []byte
	for _, v := range times {
		text = strconv.AppendFloat(text, v, 'f', -1, 64)
		text = append(text, ' ')
	}
	i, ok := known[string(text)]
	if !ok {
		i = len(t.Times)
		known[string(text)] = i
		t.Times = append(t.Times, compact(times))
	}
	return i
}

// compact returns equidistant times as what they are.
func compact(times []float64) any {
	if len(times) < 3 {
		return times
	}
	every := times[1] - times[0]
	for i := range times {
		if times[i] != times[0]+float64(i)*every {
			return times
		}
	}
	return steps{times[0], every, len(times)}
}

// phases adds when load or mix change.
func (t *traceData) phases(run *report.Run) {
	seen := map[string]bool{}
	for i := range run.Rows {
		v := run.Rows[i].Variant()
		if seen[v] {
			continue
		}
		seen[v] = true
		out := phasesData{Variant: clean(v)}
		for j, p := range run.PhasesOf(v) {
			if j > 0 {
				out.Begin = append(out.Begin, []any{p.AtUS, fmt.Sprintf("phase %d: %s/s", j+1, rate(report.Known(p.Rate)))})
			}
		}
		if len(out.Begin) > 0 {
			t.Phases = append(t.Phases, out)
		}
	}
}
