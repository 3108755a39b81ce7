package report

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seriesOf makes a series with a sample every 10 ms.
func seriesOf(values ...float64) (s series) {
	for i, v := range values {
		s.us = append(s.us, float64(i)*10_000)
		s.values = append(s.values, v)
	}
	return s
}

func repeated(v float64, n int) (list []float64) {
	for range n {
		list = append(list, v)
	}
	return list
}

func TestSettled(t *testing.T) {
	t.Parallel()
	join := func(lists ...[]float64) (out []float64) {
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	rng := rand.New(rand.NewPCG(1, 2))
	noisy := repeated(6, 10)
	for range 90 {
		v := 12.0
		switch rng.IntN(20) { // explores its neighbours in three of ten steps
		case 0, 1, 2:
			v--
		case 3, 4, 5:
			v++
		}
		noisy = append(noisy, v)
	}
	var swings, ramp []float64
	for i := range 100 {
		swings = append(swings, float64(6+6*(i%2)))
		ramp = append(ramp, float64(i))
	}
	outliers := repeated(12, 100)
	for i := 4; i < 100; i += 5 { // one in five is elsewhere
		outliers[i] = 3
	}
	more := repeated(12, 100)
	for i := range more {
		if i%5 == 4 || i%10 == 3 { // three in ten
			more[i] = 12.0 + 2.5 - 5*float64(i%2)
		}
	}
	for name, tt := range map[string]struct {
		values       []float64
		level, after string // after empty: it did not
	}{
		"step":           {join(repeated(6, 7), repeated(12, 93)), "12", "70000"},
		"at once":        {repeated(12, 100), "12", "0"},
		"within one":     {join(repeated(6, 7), repeated(11, 20), repeated(12, 73)), "12", "70000"},
		"not within one": {join(repeated(6, 7), repeated(10.9, 20), repeated(12, 73)), "12", "270000"},
		"noisy":          {noisy, "", "100000"},
		"swings":         {swings, "9", ""},
		"ramp":           {ramp, "74.5", ""},
		"too late":       {join(repeated(6, 60), repeated(12, 40)), "10.8", ""},
		"just in time":   {join(repeated(6, 50), repeated(12, 50)), "12", "500000"},
		"four in five":   {outliers, "", ""}, // the mean of the last half is 10.2, and nothing is near it
		"seven in ten":   {more, "", ""},
	} {
		level, after := seriesOf(tt.values...).settled(0, 1_000_000)
		if after.String() != tt.after || tt.level != "" && level.String() != tt.level {
			t.Errorf("%s: level %s, settled after %q; want %s, %q", name, level, after, tt.level, tt.after)
		}
	}
}

func TestSettlingOfPhases(t *testing.T) {
	t.Parallel()
	run := &Run{
		Manifest: Manifest{Phases: []Phase{{AtUS: 0, ForUS: 400_000}, {AtUS: 400_000, ForUS: 400_000}, {AtUS: 800_000, ForUS: 50_000}}},
		Rows:     []Row{{Profile: "p", Controller: "svalinn", OfferedTargetRPS: Known(5), Repeat: 1, Class: AllClasses}},
	}
	var values []float64
	values = append(append(append(values, repeated(6, 43)...), repeated(12, 37)...), repeated(6, 5)...)
	run.capacity = map[string]series{"p/svalinn/5/1": seriesOf(values...)}
	var got []string
	for _, s := range run.Settlings() {
		got = append(got, strings.Join([]string{s.Level.String(), s.SettleUS.String(), s.ReachUS.String(), s.Changes.text(), s.Remark}, "|"))
	}
	want := "6|||≥ 0|no switch before it 12|30000|30000|≥ 2.56| |||≥ 0|fewer than 30 samples"
	if g := strings.Join(got, " "); g != want {
		t.Errorf("got %s, want %s", g, want)
	}
	rows := []*Row{&run.Rows[0]}
	if got := run.settleTime(rows, 0.5); got.why != "fewer than 30 samples" {
		t.Errorf("a time of too few samples: %+v", got)
	}
	run.Manifest.Phases = run.Manifest.Phases[:2]
	if got := run.settleTime(rows, 1); got.value.String() != "30000" || got.atLeast {
		t.Errorf("got %+v", got)
	}
	if got := run.switches(rows); got.value.String() != "2.380952" || !got.atLeast { // two changes in 840 ms
		t.Errorf("switches %+v", got)
	}
	run.periods = map[string]series{"p/svalinn/5/1": {[]float64{0, 10}, []float64{20_000, 10_000}}}
	if got := run.switches(rows); got.value.String() != "2.380952" || got.atLeast {
		t.Errorf("switches of a capacity that changes as often as it is seen: %+v", got)
	}
	run.changes = map[string]series{"p/svalinn/5/1": {[]float64{0, 500_000}, []float64{100, 1100}}}
	if got := run.switches(rows); got.value.String() != "2000" || got.atLeast {
		t.Errorf("switches that were counted: %+v", got)
	}
	run.capacity = nil
	if got := run.switches(rows); got.value.known || got.why == "" {
		t.Errorf("switches without a trace %+v", got)
	}
}

// TestReached: a capacity that goes on exploring may reach its level long before it settles there, or without settling at all; one that swings
// around the level never reaches it.
func TestReached(t *testing.T) {
	t.Parallel()
	wandering := repeated(6, 40)
	for i := range 60 { // three of ten samples are elsewhere
		wandering = append(wandering, 12-2.5*float64(i%10/7))
	}
	var swings []float64
	for i := range 100 {
		swings = append(swings, float64(6+6*(i%2)))
	}
	early := append(append(repeated(6, 7), 11), append(repeated(6, 30), repeated(12, 62)...)...)
	for name, tt := range map[string]struct {
		values         []float64
		settled, reach string
	}{
		"a step":          {append(repeated(6, 7), repeated(12, 93)...), "70000", "70000"},
		"there already":   {repeated(12, 100), "0", "0"},
		"once, by chance": {early, "380000", "70000"},
		"it wanders":      {wandering, "", "400000"},
		"it swings":       {swings, "", ""},
	} {
		s := seriesOf(tt.values...)
		level, after := s.settled(0, 1_000_000)
		if reach := s.reached(0, level); after.String() != tt.settled || reach.String() != tt.reach {
			t.Errorf("%s: settled after %q and reached after %q, want %q and %q", name, after, reach, tt.settled, tt.reach)
		}
	}
}

// TestSettleTimeIsABound: a switch that was not settled after took at least half its phase, and the median knows.
func TestSettleTimeIsABound(t *testing.T) {
	t.Parallel()
	never := make([]float64, 40)
	for i := range never {
		never[i] = float64(i % 2 * 10)
	}
	run := &Run{Manifest: Manifest{Phases: []Phase{{AtUS: 0, ForUS: 400_000}, {AtUS: 400_000, ForUS: 400_000}}}, capacity: map[string]series{}}
	fast := append(repeated(6, 42), repeated(12, 38)...)
	slow := append(repeated(6, 40), never...)
	for i, values := range [][]float64{fast, fast, slow} {
		run.Rows = append(run.Rows, Row{Profile: "p", Controller: "c", OfferedTargetRPS: Known(5), Repeat: i + 1, Class: AllClasses})
		run.capacity[traceKey(&run.Rows[i])] = seriesOf(values...)
	}
	var rows []*Row
	for i := range run.Rows {
		rows = append(rows, &run.Rows[i])
	}
	if got := run.settleTime(rows, 0.5); got.value.String() != "20000" || got.atLeast {
		t.Errorf("the median is %+v", got)
	}
	if got := run.settleTime(rows, 1); got.value.String() != "200000" || !got.atLeast {
		t.Errorf("the slowest is %+v", got)
	}
}

func TestReadCapacity(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), traceFile)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	head := strings.Join(traceHeader, ",") + "\n"
	write(head + "p/v,sim,c,5,1,,0,memsem,,6\np/v,sim,c,5,1,,0,cpu,ratio,1\np/v,sim,c,5,1,,10,memsem,,7\np/v,sim,c,5,1,,10,memsem,,9\n" +
		"\"p,memsem,v\",sim,c,5,1,,10,cpu,,9\np/v,sim,c,5,1,,0,memsem_period_us,us,500\np/v,sim,c,5,1,,0,memsem_changes,,3\np/v,sim,c,5,1,,0,memsem_bw,,4\n" +
		"p/v,sim,c,5,2,,10,memsem,,8")
	run := &Run{}
	err := run.readCapacity(path)
	if c := run.capacity; err != nil || len(c) != 2 || len(c["p/v/c/5/1"].us) != 2 || c["p/v/c/5/1"].values[1] != 7 || c["p/v/c/5/2"].values[0] != 8 {
		t.Errorf("read %+v, %v", c, err)
	}
	if len(run.periods) != 1 || run.changes["p/v/c/5/1"].values[0] != 3 {
		t.Errorf("read %+v, %+v", run.periods, run.changes)
	}
	for text, want := range map[string]string{
		"p,sim,c,5,1,,x,memsem,,6\n": `trace.csv:2: "x" is not a time`,
		"p,sim,c,5,1,,1,memsem,,y\n": `trace.csv:2: "y" is not a number`,
		"p,sim,memsem,5\n":           "trace.csv:2: 4 columns, not 10",
	} {
		write(head + text)
		if err := run.readCapacity(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	run = &Run{}
	if err := run.readCapacity(path + ".not"); run.capacity != nil || err != nil {
		t.Errorf("a trace that is not there yet: %v, %v", run.capacity, err)
	}
}
