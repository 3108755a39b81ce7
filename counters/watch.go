//go:build linux

package counters

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"spillway/clock"
)

// Row is the latest value of every column at one instant, NaN for what has none since the row before.
type Row struct {
	At     clock.Instant
	Values []float64
	Flags  []Flags
}

// Watch samples a machine and calls show with a row every period until ctx is done. The columns are those of the sampler, given to head first.
func Watch(ctx context.Context, m *Machine, in *Instruments, period time.Duration, head func([]Column), show func(Row) error) (Cost, error) {
	s, err := NewSampler(SamplerConfig{Machine: m, Period: min(max(period, MinPeriod), 100*time.Millisecond), Sources: in.Sources, Gauges: in.Gauges})
	if err != nil {
		return Cost{}, err
	}
	head(s.Columns())
	if err := s.Start(); err != nil {
		return Cost{}, err
	}
	err = rows(ctx, s, period, m, show)
	if stop := s.Stop(); err == nil {
		err = stop
	}
	return s.Cost(), err
}

func rows(ctx context.Context, s *Sampler, period time.Duration, m *Machine, show func(Row) error) error {
	row := Row{Values: make([]float64, len(s.Columns())), Flags: make([]Flags, len(s.Columns()))}
	for next := m.Clock.Now(); ; {
		next = next.Add(period)
		m.Wait(ctx, next.Sub(m.Clock.Now()))
		if ctx.Err() != nil {
			return nil
		}
		row.At = m.Clock.Now()
		for i := range row.Values {
			row.Values[i], row.Flags[i] = math.NaN(), 0
		}
		for _, p := range s.Take() {
			row.Values[p.Column], row.Flags[p.Column] = p.Value, p.Flags
		}
		if err := show(row); err != nil {
			return err
		}
	}
}

// WriteTrace writes points as a table with columns time_us, name, unit, value and flags; the time is since from.
func WriteTrace(w io.Writer, columns []Column, points []Point, from clock.Instant) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"time_us", "name", "unit", "value", "flags"}) // an error stays with the writer until Flush
	for _, p := range points {
		c := columns[p.Column]
		_ = out.Write([]string{
			strconv.FormatFloat(float64(p.At.Sub(from))/1e3, 'f', 1, 64), c.Name, c.Unit, strconv.FormatFloat(p.Value, 'g', 6, 64), p.Flags.String(),
		})
	}
	out.Flush()
	return out.Error()
}

// Step is one part of a self-test: a stream of ours at one duty. The figures are medians of the rounds.
type Step struct {
	Duty     float64
	Read     float64 // bytes per second that our stream read
	Seen     float64 // that the chosen source saw, NaN if it knows no bytes
	Pressure float64 // by the self-probe, NaN if there is none
}

// SelfTest is what a self-test found.
type SelfTest struct {
	Table *Table
	Files int // that were copied
	Steps []Step
	Cost  Cost
}

// duties of the stream that a self-test runs, and how often it goes through them: what disturbs the machine for a while then falls on all of them.
var duties = [...]float64{0.25, 0.5, 0.75, 1}

const selfTestRounds = 5

// RunSelfTest writes into dir what another machine needs to stand in for this one: tree/, the files that describe it; table.json, its providers; and
// trace.csv, what they saw of a stream of ours at a quarter, a half, three quarters and all of the time, in rounds, for d altogether. progress is called
// before each step.
func RunSelfTest(ctx context.Context, m *Machine, dir string, d time.Duration, progress func(string)) (*SelfTest, error) {
	progress("copying what describes this machine")
	files, err := Capture(m.Root, filepath.Join(dir, "tree"))
	if err != nil {
		return nil, err
	}
	progress("trying every provider")
	llc, _ := m.Root.LLC()
	account := NewAccount(llc.Bytes)
	table, err := Survey(ctx, m, Config{Account: account})
	if err != nil {
		return nil, err
	}
	t := &SelfTest{Table: table, Files: files}
	text, err := table.JSON()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "table.json"), text, 0o644); err != nil {
		return nil, err
	}
	in, err := Instrument(ctx, m, Config{Account: account})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s, err := NewSampler(SamplerConfig{Machine: m, Sources: in.Sources, Gauges: in.Gauges})
	if err != nil {
		return nil, err
	}
	from, points, err := t.stream(ctx, m, s, account, d/time.Duration(len(duties)*selfTestRounds), progress)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "trace.csv"))
	if err != nil {
		return nil, err
	}
	if err := WriteTrace(f, s.Columns(), points, from); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, f.Close()
}

// stream runs our stream at each duty while s samples.
func (t *SelfTest) stream(ctx context.Context, m *Machine, s *Sampler, a *Account, each time.Duration, progress func(string)) (clock.Instant, []Point, error) {
	memory, err := NewMemory(StreamSize(m))
	if err != nil {
		return 0, nil, err
	}
	defer memory.Close()
	region := a.Region(memory.Bytes())
	defer region.Close()
	region.Touched(memory.Bytes())
	load := Load{Stream: NewStream(memory), Lane: a.Lane(), Region: region, Period: dutyPeriod, Machine: m}
	if err := s.Start(); err != nil {
		return 0, nil, err
	}
	from := m.Clock.Now()
	var parts []stretch
	for round := range selfTestRounds {
		progress(fmt.Sprintf("streaming at duties of 25 to 100 %%, round %d of %d", round+1, selfTestRounds))
		for i, duty := range duties {
			load.Duty = duty
			p := stretch{duty: i, from: m.Clock.Now()}
			p.bytes = load.Run(ctx, each)
			p.to = m.Clock.Now()
			parts = append(parts, p)
		}
	}
	if err := s.Stop(); err != nil {
		return 0, nil, err
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	t.Cost = s.Cost()
	points := s.Points(0)
	for i, duty := range duties {
		var read, seen, pressure []float64
		for _, p := range parts {
			if p.duty == i {
				read = append(read, perSecond(float64(p.bytes), p.to.Sub(p.from)))
				seen = append(seen, mean(points, s.Columns(), "membw", p))
				pressure = append(pressure, mean(points, s.Columns(), "self_probe_mem_pressure", p))
			}
		}
		t.Steps = append(t.Steps, Step{Duty: duty, Read: median(read), Seen: median(seen), Pressure: median(pressure)})
	}
	return from, points, nil
}

// stretch is a part of a self-test at one duty.
type stretch struct {
	duty     int // index
	from, to clock.Instant
	bytes    int64
}

// dutyPeriod is how long one beat of a stream at part duty lasts. Wait is good to a millisecond.
const dutyPeriod = 20 * time.Millisecond

// mean returns the mean of a column in a stretch of time, NaN if nothing is known of it. A point stands for the time since the one before.
func mean(points []Point, columns []Column, name string, in stretch) float64 {
	sum, known := 0.0, time.Duration(0)
	last := in.from
	for _, p := range points {
		if columns[p.Column].Name != name {
			continue
		}
		if span := min(p.At, in.to).Sub(max(last, in.from)); span > 0 {
			sum += p.Value * span.Seconds()
			known += span
		}
		last = p.At
	}
	return sum / known.Seconds()
}

// median returns the median of what is known, NaN if nothing is.
func median(list []float64) float64 {
	list = slices.DeleteFunc(list, math.IsNaN)
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	return list[len(list)/2]
}
