package report

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// What it is to have settled: see settlingDefinition, which says the same to readers.
const (
	settleBand    = 1.0 // of the level, in units of capacity
	settleShare   = 0.8 // of the samples that follow
	settleSamples = 30  // of a phase, below which nothing is said: its times would be too coarse
)

// The meters of the memory section.
const (
	meterCapacity = "memsem"
	meterChanges  = "memsem_changes"   // of the capacity since the beginning, where a controller counts them
	meterPeriod   = "memsem_period_us" // in which the capacity can change once
)

// series is a value over time; times ascend.
type series struct {
	us     []float64 // since the start of the window
	values []float64
}

// between returns the part of s in the span from from until to, which itself is outside.
func (s series) between(from, to float64) series {
	i, j := sort.SearchFloat64s(s.us, from), sort.SearchFloat64s(s.us, to)
	return series{s.us[i:j], s.values[i:j]}
}

// every returns the mean time between two samples, in microseconds; 0 when there are no two.
func (s series) every() float64 {
	n := len(s.us) - 1
	if n < 1 {
		return 0
	}
	return (s.us[n] - s.us[0]) / float64(n)
}

// changes returns how often the value differs from the one before it.
func (s series) changes() (n int) {
	for i := 1; i < len(s.values); i++ {
		if s.values[i] != s.values[i-1] {
			n++
		}
	}
	return n
}

func (s series) mean() Value {
	sum := 0.0
	for _, v := range s.values {
		sum += v
	}
	return Known(sum / float64(len(s.values)))
}

// near returns the share of the values that are near a level.
func (s series) near(level Value) Value {
	n := 0
	for _, v := range s.values {
		if math.Abs(v-level.number) <= settleBand {
			n++
		}
	}
	return ratio(int64(n), int64(len(s.values)))
}

// settled returns how long after from the values settle, which must be before half of the span until to is over. The level is that of the
// second half.
func (s series) settled(from, to float64) (level, after Value) {
	middle := from + (to-from)/2
	phase := s.between(from, to)
	last := phase.between(middle, to)
	if len(last.us) == 0 {
		return Value{}, Value{}
	}
	level = last.mean()
	inside := 0 // of the samples from the i-th onwards
	for i := len(phase.us) - 1; i >= 0; i-- {
		near := math.Abs(phase.values[i]-level.number) <= settleBand
		if near {
			inside++
		}
		if near && phase.us[i] <= middle && float64(inside) >= settleShare*float64(len(phase.us)-i) {
			after = Known(phase.us[i] - from) // an earlier one may yet do
		}
	}
	return level, after
}

// reached returns how long after from the values are first near a level; unknown if they never are.
func (s series) reached(from float64, level Value) Value {
	for i, v := range s.values {
		if math.Abs(v-level.number) <= settleBand {
			return Known(s.us[i] - from)
		}
	}
	return Value{}
}

// Settling is how the capacity of the memory section took to one phase of a point.
type Settling struct {
	row      *Row  // of all classes
	Phase    Phase // of the window
	Number   int   // of the phase, from 1
	Samples  int
	Level    Value // mean capacity over the last half of the phase
	Steady   Value // share of the samples of that half that are near the level
	SettleUS Value // since the phase began; unknown for the first, which nothing precedes, and when it did not settle
	ReachUS  Value // since the phase began, until the first sample near the level; unknown for the first phase, and when none was
	Changes  changes
	Remark   string
}

// Settlings returns how every point took to each phase, in the order of the rows; none when the run has no phases, or no memory section that
// shows its capacity.
func (run *Run) Settlings() (list []Settling) {
	for i := range run.Rows {
		r := &run.Rows[i]
		if _, ok := run.capacity[traceKey(r)]; r.Class != AllClasses || !ok {
			continue
		}
		for n, phase := range run.Manifest.phasesOf(r.Variant()) {
			list = append(list, run.settling(r, n+1, phase))
		}
	}
	return list
}

func (run *Run) settling(r *Row, number int, phase Phase) Settling {
	end := phase.AtUS + phase.ForUS
	s := run.capacity[traceKey(r)]
	in := s.between(phase.AtUS, end)
	out := Settling{row: r, Phase: phase, Number: number, Samples: len(in.us), Changes: run.changesOf(r, phase.AtUS, end)}
	if len(in.us) < settleSamples {
		out.Remark = fmt.Sprintf("fewer than %d samples", settleSamples)
		return out
	}
	var after Value
	out.Level, after = s.settled(phase.AtUS, end)
	out.Steady = s.between(phase.AtUS+phase.ForUS/2, end).near(out.Level)
	if number > 1 {
		out.ReachUS = in.reached(phase.AtUS, out.Level)
	}
	switch {
	case number == 1:
		out.Remark = "no switch before it"
	case after.known:
		out.SettleUS = after
	default:
		out.Remark = "did not settle within the first half of the phase"
	}
	return out
}

// changes are how often a capacity changed in a span.
type changes struct {
	count   float64
	us      float64 // the span in which they were seen
	atLeast bool    // there may have been more between two samples
}

func (c changes) perS() Value { return over(Known(c.count*1e6), Known(c.us)) }

// text writes them for people.
func (c changes) text() string {
	if v := c.perS(); c.atLeast && v.known {
		return "≥ " + plain(v)
	}
	return plain(c.perS())
}

// changesOf returns the changes of the capacity at a point in a span: as the controller counted them or, where it does not, as samples
// show them. The latter are all there are when none is further from the next than the capacity's period.
func (run *Run) changesOf(r *Row, from, to float64) changes {
	key := traceKey(r)
	if s := run.changes[key].between(from, to); len(s.us) > 1 {
		n := len(s.us) - 1
		return changes{count: s.values[n] - s.values[0], us: s.us[n] - s.us[0]}
	}
	s := run.capacity[key].between(from, to)
	period := 0.0
	for _, v := range run.periods[key].between(from, to).values {
		if period == 0 || v < period {
			period = v
		}
	}
	c := changes{count: float64(s.changes()), us: s.every() * float64(max(len(s.us)-1, 0))}
	const rounding = 1.001
	c.atLeast = period == 0 || s.every() > period*rounding
	return c
}

// failed reports whether there was a switch that the capacity did not settle after.
func (s *Settling) failed() bool {
	return s.Number > 1 && s.Samples >= settleSamples && !s.SettleUS.known
}

// needsCapacity reports whether something is to be said of the capacity over time. Traces are large, so they are not read for nothing.
func (run *Run) needsCapacity() bool {
	return run.Manifest.hasPhases() || len(run.oracles()) > 0 || slices.ContainsFunc(run.Manifest.Claims, func(c Claim) bool {
		m, ok := metricNamed(c.Metric)
		return ok && m.ofTrace != nil
	})
}

// traceKey names the point of a row as the columns of trace.csv do.
func traceKey(r *Row) string {
	return strings.Join([]string{r.Profile, r.Controller, r.OfferedTargetRPS.String(), strconv.Itoa(r.Repeat)}, "/")
}

// readCapacity reads what the trace has of the memory section. A trace that is not there, as long as the run goes on, has nothing.
func (run *Run) readCapacity(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	run.capacity, run.changes, run.periods = map[string]series{}, map[string]series{}, map[string]series{}
	in := bufio.NewReaderSize(f, 1<<16)
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		// A trace is long and mostly about something else, which is not worth being taken apart.
		if bytes.Contains(line, []byte(","+meterCapacity)) {
			if err := run.addCapacity(string(line)); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// addCapacity adds a line of a trace. Where a point has several sections (replicas have one each), the first of an instant counts.
func (run *Run) addCapacity(line string) error {
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil {
		return err
	}
	if len(fields) != len(traceHeader) {
		return fmt.Errorf("%d columns, not %d", len(fields), len(traceHeader))
	}
	to := map[string]map[string]series{meterCapacity: run.capacity, meterChanges: run.changes, meterPeriod: run.periods}[fields[7]]
	if to == nil {
		return nil
	}
	at, err := strconv.ParseFloat(fields[6], 64)
	if err != nil {
		return fmt.Errorf("%q is not a time", fields[6])
	}
	v, err := strconv.ParseFloat(fields[9], 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", fields[9])
	}
	key := strings.Join([]string{fields[0], fields[2], fields[3], fields[4]}, "/")
	s := to[key]
	if n := len(s.us); n > 0 && at <= s.us[n-1] {
		return nil
	}
	to[key] = series{append(s.us, at), append(s.values, v)}
	return nil
}
