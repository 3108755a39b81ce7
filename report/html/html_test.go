package html

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/report"
)

func TestSameFilesSamePage(t *testing.T) {
	t.Parallel()
	run := small().make(t)
	first := written(t, run)
	for range 3 {
		if written(t, run) != first {
			t.Fatal("two pages of the same run differ")
		}
	}
}

// TestNothingFromOutside looks for anything that a browser would fetch. What it does fetch, TestPage sees.
func TestNothingFromOutside(t *testing.T) {
	t.Parallel()
	page := written(t, small().make(t))
	head, _, _ := strings.Cut(page, `<script type="application/json"`)
	for _, forbidden := range []string{"<link", "<img", "<iframe", "src=", "@import", "url(", "style=", "onclick", "onload", "javascript:"} {
		if strings.Contains(strings.ToLower(head), forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	if !strings.Contains(page, "Copyright (c)") || strings.Contains(uplotLicence, "--") {
		t.Error("the licence of uPlot is not in the page, or would end the comment that it is in")
	}
	for _, s := range scripts {
		if strings.Contains(strings.ToLower(s), "</script") || strings.Contains(s, "<!--") {
			t.Error("a script would end its own element")
		}
	}
	if !strings.Contains(head, "default-src &#39;none&#39;; style-src &#39;sha256-") {
		t.Error("the page has no policy that forbids everything else")
	}
}

func TestChartsHaveTheirTitlesAndSummaries(t *testing.T) {
	t.Parallel()
	d := dataOf(t, written(t, small().make(t))).Runs[0]
	if len(d.Groups) != 6 {
		t.Fatalf("%d groups, want two variants by three classes", len(d.Groups))
	}
	for _, g := range d.Groups {
		if len(g.Charts) != 5 || len(g.Bars) != 2 { // what the server turned away is all that was shed, and not shown again
			t.Errorf("group %s has %d charts and %d of bars", g.ID, len(g.Charts), len(g.Bars))
		}
		for _, c := range g.Charts {
			if c.Title == "" || !strings.Contains(c.Summary, "svalinn") || !strings.Contains(c.Summary, "1 of 16 points are not valid") {
				t.Errorf("chart %s says %q", c.ID, c.Summary)
			}
		}
	}
	if d.Groups[0].Variant != "slow" || d.Groups[0].Class != "cpu" || d.Groups[0].Charts[0].ID != "goodput-cpu-slow" {
		t.Errorf("the first chart is %s of %s, %s", d.Groups[0].Charts[0].ID, d.Groups[0].Variant, d.Groups[0].Class)
	}
}

func TestPercentilesRise(t *testing.T) {
	t.Parallel()
	d := dataOf(t, written(t, small().make(t))).Runs[0].Dist
	if len(d.Rows) != 2*4*4*3 {
		t.Fatalf("%d distributions", len(d.Rows))
	}
	for _, r := range d.Rows {
		last := 0.0
		for _, v := range r[6].([]any) {
			if v.(float64) < last {
				t.Fatalf("percentiles fall: %v", r[6])
			}
			last = v.(float64)
		}
	}
}

// TestPeaksSurvive plants single samples far from all others into a long series. However few are kept, they are.
func TestPeaksSurvive(t *testing.T) {
	t.Parallel()
	samples := 1_000_000
	if testing.Short() {
		samples = 50_000
	}
	e := experiment{name: "long", controllers: []string{"svalinn"}, loads: []float64{1e5}, classes: []string{"cpu"}, repeats: 1}
	run := e.make(t)
	peaks := map[int]float64{0: 900, samples / 9: 901, samples / 3: 902, samples/3 + samples/25: -903, samples - 1: 904}
	longTrace(t, run, samples, peaks)
	d := dataOf(t, written(t, run)).Runs[0]
	if !strings.Contains(d.Trace.Note, "every peak is there") {
		t.Errorf("the page does not say that it left samples out: %q", d.Trace.Note)
	}
	series := d.Trace.Points[0].Series[0]
	values, kept := series[2].([]any), map[float64]bool{}
	if len(values) > mostSamples || len(values) < mostSamples/2 {
		t.Errorf("%d samples were kept, want at most %d and not many fewer", len(values), mostSamples)
	}
	for _, v := range values {
		kept[v.(float64)] = true
	}
	for at, v := range peaks {
		if !kept[v] {
			t.Errorf("the peak %v at sample %d is lost", v, at)
		}
	}
	if n := series[3].(float64); int(n) != samples {
		t.Errorf("it says that it is of %v samples, want %d", n, samples)
	}
	times := d.Trace.Times[int(series[1].(float64))].([]any)
	if len(times) != len(values) || !slices.IsSortedFunc(times, func(a, b any) int { return int(a.(float64) - b.(float64)) }) {
		t.Errorf("%d times for %d values, or not by rising time", len(times), len(values))
	}
}

func longTrace(t testing.TB, run *report.Run, samples int, peaks map[int]float64) {
	t.Helper()
	f, err := os.Create(filepath.Join(run.Dir, traceFile))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	w.WriteString(traceHead)
	for i := range samples {
		v, ok := peaks[i]
		if !ok {
			v = math.Round(100*math.Sin(float64(i)/5e4)) / 10
		}
		w.WriteString("long,sim,svalinn,100000,1,,")
		w.WriteString(strconv.Itoa(i * 10))
		w.WriteString(",queue_delay,us,")
		w.WriteString(strconv.FormatFloat(v, 'f', -1, 64))
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGapsStayOpen: where a series has no samples for long, its line is broken.
func TestGapsStayOpen(t *testing.T) {
	t.Parallel()
	s := series{count: 6, from: 0, to: 100}
	for _, at := range []float64{0, 10, 20, 90, 100, 100.5} {
		s.add(sample{at, 1})
	}
	s.to = 60 // sampled every 12 on average
	times, values := s.vectors()
	if want := []any{1.0, 1.0, 1.0, nil, 1.0, 1.0, 1.0}; !cmp.Equal(values, want) || times[3] != 55 {
		t.Errorf("values %v at %v, want a gap between 20 and 90", values, times)
	}
}

// TestTraceThatIsDamaged: the rest of the page is still worth having, and says what is wrong with it.
func TestTraceThatIsDamaged(t *testing.T) {
	t.Parallel()
	for damage, want := range map[string]string{"half,a line\n": "trace.csv: record on line", "p,sim,svalinn,1,1,,0,credits,,NaN\n": "&#34;NaN&#34; is not a number"} {
		run := simple().make(t)
		path := filepath.Join(run.Dir, traceFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write1(t, path, string(text)+damage)
		page := written(t, run)
		if !strings.Contains(page, "There are no time series: ") || !strings.Contains(page, want) || strings.Contains(page, run.Dir) {
			t.Errorf("the page does not say what is wrong with %q, or says where it was made", damage)
		}
		if !strings.Contains(page, `"goodput-cpu"`) {
			t.Error("its charts are not there")
		}
	}
}

func TestTooManySeries(t *testing.T) {
	t.Parallel()
	var order []*series
	for i := range traceBudget/leastBucket + 100 {
		order = append(order, &series{key: seriesKey{point: pointKey{repeat: i / 10}}, count: 1000, to: 1})
	}
	d := &traceData{}
	kept := plan(order, d)
	if len(kept)*leastBucket > traceBudget || !strings.Contains(d.Note, "The time series of 10 points are not in this page") {
		t.Errorf("%d series are kept, and the page says %q", len(kept), d.Note)
	}
	order[len(order)-1].add(sample{0, 1})
	if len(order[len(order)-1].kept) != 0 {
		t.Error("a series that is left out takes samples")
	}
}

func TestTextIsReadAsItWasMeant(t *testing.T) {
	t.Parallel()
	got := parseText("## Class a\\_b\n\nIn **time** is `x<y` &lt;b&gt; *here* 1\\*2.\n\n| a | b |\n|:--|--:|\n| x \\| y | **holds** |\n\n- one\n- two\nmore\n")
	want := []block{
		{Heading: "Class a_b", Level: 2},
		{Text: []span{{Text: "In "}, {Text: "time", Strong: true}, {Text: " is "}, {Text: "x<y", Code: true}, {Text: " <b> "}, {Text: "here", Em: true}, {Text: " 1*2."}}},
		{Head: []cell{{{Text: "a"}}, {{Text: "b"}}}, Right: []bool{false, true}, Rows: [][]cell{{{{Text: "x | y"}}, {{Text: "holds", Strong: true}}}}},
		{List: [][]span{{{Text: "one"}}, {{Text: "two"}, {Text: " more"}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := got[2].Rows[0][1][0].Word(); w != "good" {
		t.Errorf("a claim that holds is %q", w)
	}
}

func TestLongTablesWaitUntilTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	e := small()
	e.repeats = 1
	run := e.make(t)
	for i := range run.Manifest.Points {
		run.Manifest.Points[i].Responses = []report.Responses{{Class: "cpu", AnsweredRatio: 1, P50US: 80}, {Class: "memory", AnsweredRatio: 0.5}}
	}
	page := written(t, run)
	d := dataOf(t, page).Runs[0]
	if len(d.Tables) != 1 || len(d.Tables[0].Rows) != 64 || !strings.Contains(page, `data-table="table-1"`) {
		t.Errorf("%d tables wait, want that of 64 response times", len(d.Tables))
	}
	if n := len(d.Points.Rows); n != 96 {
		t.Errorf("the table of points has %d rows, want 96", n)
	}
}

// TestTenThousandPoints makes sure that a page of very many points has all of them, and no more of each than can be drawn.
func TestTenThousandPoints(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it is large")
	}
	d := dataOf(t, written(t, large(t))).Runs[0]
	points := 0
	for _, g := range d.Groups {
		for _, c := range g.Charts[:1] {
			for _, l := range c.Lines {
				if !d.Labels[l.Label].Ref {
					points += len(l.Points)
				}
			}
		}
		for _, b := range g.Bars {
			for _, p := range b.Panels {
				if len(p.Rows) > mostBars {
					t.Fatalf("%s has %d bars", b.ID, len(p.Rows))
				}
			}
		}
	}
	if points != 10_000 {
		t.Errorf("the charts of goodput have %d points, want 10000", points)
	}
	if len(d.Points.Rows) != 10_000*2 {
		t.Errorf("the table has %d rows", len(d.Points.Rows))
	}
	if len(d.Dist.Percentiles) != len(fewPercentiles) {
		t.Errorf("%d percentiles of each point: too many to open the page quickly", len(d.Dist.Percentiles))
	}
}

// large is a run of 10 000 points: ten controllers, ten variants, a hundred loads.
func large(t testing.TB) *report.Run {
	e := experiment{name: "large", classes: []string{"cpu"}, repeats: 1}
	for i := range 10 {
		e.controllers = append(e.controllers, fmt.Sprintf("controller-%d", i))
		e.variants = append(e.variants, fmt.Sprintf("variant-%d", i))
	}
	for i := range 100 {
		e.loads = append(e.loads, float64(10_000*(i+1)))
	}
	return e.make(t)
}

func BenchmarkTenThousandPoints(b *testing.B) {
	run := large(b)
	for b.Loop() {
		b.ReportMetric(float64(len(written(b, run)))/1e6, "MB")
	}
}

func BenchmarkMillionSamples(b *testing.B) {
	run := experiment{name: "long", controllers: []string{"svalinn"}, loads: []float64{1e5}, classes: []string{"cpu"}, repeats: 1}.make(b)
	longTrace(b, run, 1_000_000, nil)
	for b.Loop() {
		written(b, run)
	}
}
